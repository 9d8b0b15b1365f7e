"""Leases of conversations in SQLite, and the check that fenced writes make."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from agent.errors import LeaseLost
from gateway.store.ports import Fence

if TYPE_CHECKING:
    from gateway.store.sqlite.database import Database


class SqliteLeases:
    """Writes need not wait for the disk: a power cut ends all holders."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def acquire(self, conversation_id: str, *, holder: str, seconds: float) -> int | None:
        return await self._database.write(
            _acquire, conversation_id, holder, seconds, fence=None, durable=False
        )

    async def renew(self, conversation_ids: Collection[str], *, holder: str, seconds: float) -> None:
        await self._database.write(_renew, list(conversation_ids), holder, seconds, fence=None, durable=False)

    async def release(self, conversation_id: str, *, holder: str) -> None:
        await self._database.write(_release, conversation_id, holder, fence=None, durable=False)

    async def expire_all(self) -> None:
        await self._database.write(_expire_all, fence=None, durable=False)


def check(connection: sqlite3.Connection, fence: Fence) -> None:
    """Raise LeaseLost if the fence is outdated. Runs in the transaction of the write that it guards."""
    row = connection.execute(
        "SELECT token FROM leases WHERE conversation_id = ?", (fence.conversation_id,)
    ).fetchone()
    if row is None or row[0] != fence.token:
        raise LeaseLost(f"({fence.conversation_id})")


def _acquire(connection: sqlite3.Connection, conversation_id: str, holder: str, seconds: float) -> int | None:
    """Take the lease. The token stays the same for the same holder: background work of an earlier turn may still
    write."""
    now = time.time()
    row = connection.execute(
        """
        INSERT INTO leases (conversation_id, holder, token, expires_at) VALUES (:conversation, :holder, 1, :until)
        ON CONFLICT (conversation_id) DO UPDATE SET
            token = token + (holder <> excluded.holder), holder = excluded.holder, expires_at = excluded.expires_at
        WHERE holder = excluded.holder OR expires_at <= :now
        RETURNING token
        """,
        {"conversation": conversation_id, "holder": holder, "until": now + seconds, "now": now},
    ).fetchone()
    return None if row is None else int(row[0])


def _renew(connection: sqlite3.Connection, conversation_ids: list[str], holder: str, seconds: float) -> None:
    until = time.time() + seconds
    connection.executemany(
        "UPDATE leases SET expires_at = ? WHERE conversation_id = ? AND holder = ? AND expires_at > 0",
        [(until, conversation_id, holder) for conversation_id in conversation_ids],
    )


def _release(connection: sqlite3.Connection, conversation_id: str, holder: str) -> None:
    connection.execute(
        "UPDATE leases SET expires_at = 0 WHERE conversation_id = ? AND holder = ?", (conversation_id, holder)
    )


def _expire_all(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE leases SET expires_at = 0")
