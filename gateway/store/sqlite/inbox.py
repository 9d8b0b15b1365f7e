"""`Inbox` in SQLite."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from agent.messages import Message
from gateway.errors import QueueFull
from gateway.store.ports import Fence, InboxMessage, Payload, QueueLimits
from gateway.store.reports import ParkedItem
from gateway.store.sqlite import outbox
from gateway.store.sqlite.database import Database
from gateway.store.sqlite.queue_status import Counts, inbox_counts, parked_messages
from gateway.store.sqlite.rows import place_from
from gateway.store.sqlite.validation import storable
from gateway.text.unicode import is_blank
from gateway.types import Place

_RETENTION_SECONDS = 30 * 86_400.0
"""How long done messages are kept. Telegram repeats updates for a day, and Discord history is read as far back."""


class SqliteInbox:
    def __init__(self, database: Database, fence: Fence | None = None) -> None:
        self._database = database
        self._fence = fence

    async def first_seen_at(self, platform: str) -> float:
        return await self._database.write(_first_seen_at, platform, fence=self._fence, durable=False)

    async def add(self, message: InboxMessage, *, limits: QueueLimits | None = None) -> bool:
        return await self._database.write(_add, message, limits, fence=self._fence)

    async def replace_payload(self, message_id: str, payload: Payload) -> bool:
        return await self._database.write(_replace_payload, message_id, payload, fence=self._fence)

    async def waiting(self, platform: str) -> list[InboxMessage]:
        return await self._database.read(_waiting, platform)

    async def is_waiting(self, message_id: str) -> bool:
        return await self._database.read(_is_waiting, message_id)

    async def latest_ids(self, platform: str, *, limit: int) -> dict[Place, str]:
        return await self._database.read(_latest_ids, platform, limit)

    async def start_attempt(self, message_id: str) -> int:
        return await self._database.write(_start_attempt, message_id, fence=self._fence, durable=False)

    async def mark_done(
        self, message_ids: Sequence[str], *, conversation_id: str = "", notice_id: str = "", notice: str = ""
    ) -> bool:
        return await self._database.write(
            _mark_done, message_ids, conversation_id, notice_id, notice, fence=self._fence
        )

    async def cancel_attempt(self, message_id: str, times: int = 1) -> None:
        await self._database.write(_cancel_attempt, message_id, times, fence=self._fence, durable=False)

    async def park(
        self,
        message_ids: Sequence[str],
        reason: str,
        *,
        conversation_id: str = "",
        notice_id: str = "",
        notice: str = "",
    ) -> bool:
        return await self._database.write(
            _park, message_ids, reason, conversation_id, notice_id, notice, fence=self._fence
        )

    async def purge_old(self) -> None:
        before = time.time() - _RETENTION_SECONDS
        while await self._database.write(_purge_old, before, fence=self._fence, durable=False):
            pass  # small steps, between which others write

    async def parked(self) -> list[ParkedItem]:
        return await self._database.read(parked_messages)

    async def counts(self) -> Counts:
        return await self._database.read(inbox_counts)

    async def is_superseded(self, message_id: str) -> bool:
        return await self._database.read(_is_superseded, message_id)

    async def unpark(self, message_id: str) -> InboxMessage | None:
        return await self._database.write(_unpark, message_id, fence=self._fence)

    async def dismiss(self, message_id: str) -> bool:
        return await self._database.write(_dismiss, message_id, fence=self._fence)


def mark_done(connection: sqlite3.Connection, message_ids: Sequence[str]) -> None:
    """Mark messages as done in the transaction that answers them; their text is in the conversation by then."""
    connection.executemany(
        "UPDATE inbox SET state = 'done', payload = '{}' WHERE id = ? AND state = 'waiting'",
        [(message_id,) for message_id in message_ids],
    )


def answer(
    connection: sqlite3.Connection,
    conversation_id: str,
    messages: Sequence[Message],
    answers: str,
    settles: Sequence[str],
) -> None:
    """Add the answers of the model to the outbox in the transaction that stores them."""
    for message in messages:
        if answers and message.role == "assistant" and not is_blank(message.content):
            outbox.put(
                connection,
                message.id,
                conversation_id=conversation_id,
                turn_id=answers,
                kind="text",
                content=message.content,
            )
    mark_done(connection, settles)


def _first_seen_at(connection: sqlite3.Connection, platform: str) -> float:
    connection.execute(
        "INSERT INTO bots (platform, since) VALUES (?, ?) ON CONFLICT DO NOTHING", (platform, time.time())
    )
    return float(connection.execute("SELECT since FROM bots WHERE platform = ?", (platform,)).fetchone()[0])


def _add(connection: sqlite3.Connection, message: InboxMessage, limits: QueueLimits | None) -> bool:
    place = None if message.place is None else _as_json(asdict(message.place))
    if connection.execute("SELECT 1 FROM inbox WHERE id = ?", (message.id,)).fetchone():
        return False  # a repeated message must not be refused as one too many
    if limits is not None:
        _check_limits(connection, message, place, limits)
    connection.execute(
        "INSERT INTO inbox (id, platform, place, number, payload, received_at) VALUES (?, ?, ?, ?, ?, ?)",
        (message.id, message.platform, place, message.number, _as_json(message.payload), time.time()),
    )
    return True


def _check_limits(
    connection: sqlite3.Connection, message: InboxMessage, place: str | None, limits: QueueLimits
) -> None:
    """Raise QueueFull. In a group, one person cannot use up the limit of the others."""
    total, own = connection.execute(
        """
        SELECT count(*), count(*) FILTER (WHERE json_extract(payload, '$.author.id') = ?)
        FROM inbox INDEXED BY inbox_waiting WHERE state = 'waiting' AND platform = ? AND place = ?
        """,
        (message.payload["author"]["id"], message.platform, place),
    ).fetchone()
    if own >= limits.per_person or total >= limits.total:
        raise QueueFull(own if own >= limits.per_person else total)


def _replace_payload(connection: sqlite3.Connection, message_id: str, payload: Payload) -> bool:
    written = connection.execute(
        "UPDATE inbox SET payload = ? WHERE id = ? AND state = 'waiting' AND attempts = 0",
        (_as_json(payload), message_id),
    )
    return written.rowcount > 0


def _waiting(connection: sqlite3.Connection, platform: str) -> list[InboxMessage]:
    rows = connection.execute(
        """
        SELECT id, payload, place, number, attempts FROM inbox INDEXED BY inbox_waiting
        WHERE state = 'waiting' AND platform = ? ORDER BY seq
        """,
        (platform,),
    )
    return [_message_from(platform, *row) for row in rows]


def _message_from(
    platform: str, message_id: str, payload: str, place: str | None, number: str, attempts: int
) -> InboxMessage:
    """Decode a row. An unreadable row gets an empty payload, which no platform accepts as a message."""
    try:
        where = None if place is None else place_from(place)
        return InboxMessage(message_id, platform, json.loads(payload), where, number, attempts)
    except (ValueError, RecursionError):
        return InboxMessage(message_id, platform, {}, None, number, attempts)


def _is_waiting(connection: sqlite3.Connection, message_id: str) -> bool:
    row = connection.execute("SELECT state FROM inbox WHERE id = ?", (message_id,)).fetchone()
    return row is not None and row[0] == "waiting"


def _latest_ids(connection: sqlite3.Connection, platform: str, limit: int) -> dict[Place, str]:
    rows = connection.execute(
        """
        SELECT place, max(CAST(number AS INTEGER)) FROM inbox
        WHERE platform = ? AND place IS NOT NULL AND number <> ''
        GROUP BY place ORDER BY max(seq) DESC LIMIT ?
        """,
        (platform, limit),
    )
    found: dict[Place, str] = {}
    for place, number in rows:
        with suppress(ValueError):
            found[place_from(place)] = str(number)
    return found


def _start_attempt(connection: sqlite3.Connection, message_id: str) -> int:
    row = connection.execute(
        "UPDATE inbox SET attempts = attempts + 1 WHERE id = ? RETURNING attempts", (message_id,)
    ).fetchone()
    return int(row[0]) if row else 0


def _mark_done(
    connection: sqlite3.Connection,
    message_ids: Sequence[str],
    conversation_id: str,
    notice_id: str,
    notice: str,
) -> bool:
    mark_done(connection, message_ids)
    if not notice:
        return False
    return outbox.put(
        connection,
        notice_id,
        conversation_id=conversation_id,
        turn_id=message_ids[0],
        kind="notice",
        content=notice,
    )


def _cancel_attempt(connection: sqlite3.Connection, message_id: str, times: int) -> None:
    connection.execute("UPDATE inbox SET attempts = max(0, attempts - ?) WHERE id = ?", (times, message_id))


def _park(
    connection: sqlite3.Connection,
    message_ids: Sequence[str],
    reason: str,
    conversation_id: str,
    notice_id: str,
    notice: str,
) -> bool:
    connection.execute(
        "UPDATE inbox SET state = 'parked', reason = ? WHERE id = ? AND state = 'waiting'",
        (reason, message_ids[0]),
    )
    return _mark_done(connection, message_ids, conversation_id, notice_id, notice)


def _is_superseded(connection: sqlite3.Connection, message_id: str) -> bool:
    row = connection.execute(
        """
        SELECT conversations.live_session_id <> said.session_id OR EXISTS (
            SELECT 1 FROM messages AS later
            WHERE later.session_id = said.session_id AND later.kind = 'said' AND later.seq > said.seq
            AND later.role = 'user')
        FROM messages AS said
        JOIN sessions ON sessions.id = said.session_id
        JOIN conversations ON conversations.id = sessions.conversation_id
        WHERE said.id = ?
        """,
        (message_id,),
    ).fetchone()
    return bool(row and row[0])


def _unpark(connection: sqlite3.Connection, message_id: str) -> InboxMessage | None:
    row = connection.execute(
        """
        UPDATE inbox SET state = 'waiting', attempts = 0, reason = '' WHERE id = ? AND state = 'parked'
        RETURNING platform, id, payload, place, number, attempts
        """,
        (message_id,),
    ).fetchone()
    return _message_from(*row) if row else None


def _dismiss(connection: sqlite3.Connection, message_id: str) -> bool:
    written = connection.execute(
        "UPDATE inbox SET state = 'done', payload = '{}' WHERE id = ? AND state = 'parked'", (message_id,)
    )
    return written.rowcount > 0


def _purge_old(connection: sqlite3.Connection, before: float) -> bool:
    """Delete some of the oldest rows; parked rows stay. Returns whether there may be more."""
    gone = [
        connection.execute(
            """
            DELETE FROM inbox WHERE state = 'done' AND received_at < ?
            AND seq IN (SELECT seq FROM inbox WHERE state = 'done' ORDER BY seq LIMIT 500)
            """,
            (before,),
        ).rowcount,
        connection.execute(
            """
            DELETE FROM outbox WHERE state = 'sent' AND created_at < ?
            AND seq IN (SELECT seq FROM outbox WHERE state = 'sent' ORDER BY seq LIMIT 500)
            """,
            (before,),
        ).rowcount,
    ]
    return any(gone)


def _as_json(value: Any) -> str:
    return storable(json.dumps(value, ensure_ascii=False))
