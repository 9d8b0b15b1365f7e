"""Leases of conversations, and the check that fenced writes make."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, Concatenate, TypeVar

from agent.errors import LeaseLost
from gateway.store.ports import Fence
from gateway.store.sql.database import Connection, Part, write

T = TypeVar("T")


def fenced(
    connection: Connection, fence: Fence, work: Callable[Concatenate[Any, ...], T], *arguments: Any
) -> T:
    """Run `work` in a transaction that raises LeaseLost if the fence is outdated."""
    row = connection.execute(
        "SELECT token FROM leases WHERE conversation_id = ?", (fence.conversation_id,)
    ).fetchone()
    if row is None or row[0] != fence.token:
        raise LeaseLost(f"({fence.conversation_id})")
    return work(connection, *arguments)


def _acquire(connection: Connection, conversation_id: str, *, holder: str, seconds: float) -> int | None:
    """Take the lease. The token stays the same for the same holder: background work of an earlier turn may still
    write."""
    now = time.time()
    row = connection.execute(
        """
        INSERT INTO leases (conversation_id, holder, token, expires_at) VALUES (:conversation, :holder, 1, :until)
        ON CONFLICT (conversation_id) DO UPDATE SET
            token = leases.token + CASE WHEN leases.holder = excluded.holder THEN 0 ELSE 1 END,
            holder = excluded.holder, expires_at = excluded.expires_at
        WHERE leases.holder = excluded.holder OR leases.expires_at <= :now
        RETURNING token
        """,
        {"conversation": conversation_id, "holder": holder, "until": now + seconds, "now": now},
    ).fetchone()
    return None if row is None else int(row[0])


def _renew(connection: Connection, conversation_ids: Collection[str], *, holder: str, seconds: float) -> None:
    until = time.time() + seconds
    connection.executemany(
        "UPDATE leases SET expires_at = ? WHERE conversation_id = ? AND holder = ? AND expires_at > 0",
        [(until, conversation_id, holder) for conversation_id in conversation_ids],
    )


def _release(connection: Connection, conversation_id: str, *, holder: str) -> None:
    connection.execute(
        "UPDATE leases SET expires_at = 0 WHERE conversation_id = ? AND holder = ?", (conversation_id, holder)
    )


def _expire_all(connection: Connection) -> None:
    connection.execute("UPDATE leases SET expires_at = 0")


class SqlLeases(Part):
    """Writes need not wait for the disk: a power cut ends all holders."""

    acquire = write(_acquire, durable=False)
    renew = write(_renew, durable=False)
    release = write(_release, durable=False)
    expire_all = write(_expire_all, durable=False)
