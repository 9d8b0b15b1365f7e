"""Messages that were taken: `gateway.inbox.Inbox` in the store's database."""

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
from gateway.store.ports import InboxMessage, ParkedItem, Payload, QueueLimits
from gateway.store.sqlite import outbox
from gateway.store.sqlite.access import Run
from gateway.store.sqlite.queue_status import Counts, in_inbox, parked_messages
from gateway.store.sqlite.rows import place_from
from gateway.store.sqlite.validation import storable
from gateway.text.unicode import is_blank
from gateway.types import Place

_REMEMBERED_SECONDS = 30 * 86_400.0
"""Telegram delivers again for a day, and Discord's history is read as far back."""


class StoredInbox:
    """Questions go to the store's readers, changes to its writer. `write_soon` survives the end of the process, but
    not a power cut."""

    def __init__(self, read: Run, write: Run, write_soon: Run) -> None:
        self._read = read
        self._write = write
        self._write_soon = write_soon

    async def listening_since(self, platform: str) -> float:
        return await self._write_soon(_listening_since, platform)

    async def take(self, taken: InboxMessage, *, room: QueueLimits | None = None) -> bool:
        return await self._write(_take, taken, room)

    async def rewrite(self, message_id: str, payload: Payload) -> bool:
        return await self._write(_rewrite, message_id, payload)

    async def waiting(self, platform: str) -> list[InboxMessage]:
        return await self._read(_waiting, platform)

    async def is_waiting(self, message_id: str) -> bool:
        return await self._read(_is_waiting, message_id)

    async def newest(self, platform: str, *, limit: int) -> dict[Place, str]:
        return await self._read(_newest, platform, limit)

    async def begin(self, message_id: str) -> int:
        return await self._write_soon(_begin, message_id)

    async def settle(
        self, message_ids: Sequence[str], *, conversation_id: str = "", notice_id: str = "", notice: str = ""
    ) -> bool:
        return await self._write(_settle, message_ids, conversation_id, notice_id, notice)

    async def unbegin(self, message_id: str, times: int = 1) -> None:
        await self._write_soon(_unbegin, message_id, times)

    async def park(
        self,
        message_ids: Sequence[str],
        reason: str,
        *,
        conversation_id: str = "",
        notice_id: str = "",
        notice: str = "",
    ) -> bool:
        return await self._write(_park, message_ids, reason, conversation_id, notice_id, notice)

    async def tidy(self) -> None:
        before = time.time() - _REMEMBERED_SECONDS
        while await self._write_soon(_tidy, before):
            pass  # in small steps, between which others write

    async def parked(self) -> list[ParkedItem]:
        return await self._read(parked_messages)

    async def counts(self) -> Counts:
        return await self._read(in_inbox)

    async def has_gone_on(self, message_id: str) -> bool:
        return await self._read(_has_gone_on, message_id)

    async def unpark(self, message_id: str) -> InboxMessage | None:
        return await self._write(_unpark, message_id)

    async def dismiss(self, message_id: str) -> bool:
        return await self._write(_dismiss, message_id)


def settle(connection: sqlite3.Connection, message_ids: Sequence[str]) -> None:
    """In the transaction that deals with them. What they said is where it belongs by now."""
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
    """In the transaction that stores the messages: the model's words among them are put on their way."""
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
    settle(connection, settles)


def _listening_since(connection: sqlite3.Connection, platform: str) -> float:
    connection.execute(
        "INSERT INTO bots (platform, since) VALUES (?, ?) ON CONFLICT DO NOTHING", (platform, time.time())
    )
    return float(connection.execute("SELECT since FROM bots WHERE platform = ?", (platform,)).fetchone()[0])


def _take(connection: sqlite3.Connection, taken: InboxMessage, room: QueueLimits | None) -> bool:
    place = None if taken.place is None else _as_json(asdict(taken.place))
    if connection.execute("SELECT 1 FROM inbox WHERE id = ?", (taken.id,)).fetchone():
        return False  # whoever sent it must not hear that there is no room for it
    if room is not None:
        _check_room(connection, taken, place, room)
    connection.execute(
        "INSERT INTO inbox (id, platform, place, number, payload, received_at) VALUES (?, ?, ?, ?, ?, ?)",
        (taken.id, taken.platform, place, taken.number, _as_json(taken.payload), time.time()),
    )
    return True


def _check_room(
    connection: sqlite3.Connection, taken: InboxMessage, place: str | None, room: QueueLimits
) -> None:
    """In a group, what one person sends leaves room for the others."""
    in_all, own = connection.execute(
        """
        SELECT count(*), count(*) FILTER (WHERE json_extract(payload, '$.author.id') = ?)
        FROM inbox INDEXED BY inbox_waiting WHERE state = 'waiting' AND platform = ? AND place = ?
        """,
        (taken.payload["author"]["id"], taken.platform, place),
    ).fetchone()
    if own >= room.of_one_person or in_all >= room.in_all:
        raise QueueFull(own if own >= room.of_one_person else in_all)


def _rewrite(connection: sqlite3.Connection, message_id: str, payload: Payload) -> bool:
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
    return [_taken_from(platform, *row) for row in rows]


def _taken_from(
    platform: str, message_id: str, payload: str, place: str | None, number: str, attempts: int
) -> InboxMessage:
    """What cannot be read has nothing in it, and nobody takes that for a message."""
    try:
        where = None if place is None else place_from(place)
        return InboxMessage(message_id, platform, json.loads(payload), where, number, attempts)
    except (ValueError, RecursionError):
        return InboxMessage(message_id, platform, {}, None, number, attempts)


def _is_waiting(connection: sqlite3.Connection, message_id: str) -> bool:
    row = connection.execute("SELECT state FROM inbox WHERE id = ?", (message_id,)).fetchone()
    return row is not None and row[0] == "waiting"


def _newest(connection: sqlite3.Connection, platform: str, limit: int) -> dict[Place, str]:
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


def _begin(connection: sqlite3.Connection, message_id: str) -> int:
    row = connection.execute(
        "UPDATE inbox SET attempts = attempts + 1 WHERE id = ? RETURNING attempts", (message_id,)
    ).fetchone()
    return int(row[0]) if row else 0


def _settle(
    connection: sqlite3.Connection,
    message_ids: Sequence[str],
    conversation_id: str,
    notice_id: str,
    notice: str,
) -> bool:
    settle(connection, message_ids)
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


def _unbegin(connection: sqlite3.Connection, message_id: str, times: int) -> None:
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
    return _settle(connection, message_ids, conversation_id, notice_id, notice)


def _has_gone_on(connection: sqlite3.Connection, message_id: str) -> bool:
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
    return _taken_from(*row) if row else None


def _dismiss(connection: sqlite3.Connection, message_id: str) -> bool:
    written = connection.execute(
        "UPDATE inbox SET state = 'done', payload = '{}' WHERE id = ? AND state = 'parked'", (message_id,)
    )
    return written.rowcount > 0


def _tidy(connection: sqlite3.Connection, before: float) -> bool:
    """A few of the oldest; what was parked before them stays. Whether there may be more."""
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
