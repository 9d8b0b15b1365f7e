# ruff: noqa: S608 - only our own constants are put into the SQL; values are always bound
"""`Inbox` in SQL."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from agent.messages import Message
from gateway.errors import QueueFull
from gateway.store.ports import InboxMessage, Payload, QueueLimits
from gateway.store.sql import outbox
from gateway.store.sql.database import Connection, Part, read, write
from gateway.store.sql.reports import inbox_counts, parked_messages
from gateway.store.sql.rows import place_from, storable
from gateway.text.unicode import is_blank
from gateway.types import Place

_RETENTION_SECONDS = 30 * 86_400.0
"""How long done messages are kept. Telegram repeats updates for a day, and Discord history is read as far back."""

_ZEROS = "0" * 20
"""The length of the longest number that a service gives a message."""


def mark_done(connection: Connection, message_ids: Sequence[str]) -> None:
    """Mark messages as done in the transaction that answers them; their text is in the conversation by then."""
    connection.executemany(
        "UPDATE inbox SET state = 'done', payload = '{}' WHERE id = ? AND state = 'waiting'",
        [(message_id,) for message_id in message_ids],
    )


def answer(
    connection: Connection,
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


def _first_seen_at(connection: Connection, platform: str) -> float:
    connection.execute(
        "INSERT INTO bots (platform, since) VALUES (?, ?) ON CONFLICT DO NOTHING", (platform, time.time())
    )
    return float(connection.execute("SELECT since FROM bots WHERE platform = ?", (platform,)).fetchone()[0])


def _add(connection: Connection, message: InboxMessage, *, limits: QueueLimits | None = None) -> bool:
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
    connection: Connection, message: InboxMessage, place: str | None, limits: QueueLimits
) -> None:
    """Raise QueueFull. In a group, one person cannot use up the limit of the others."""
    waiting = connection.execute(
        """
        SELECT payload FROM inbox INDEXED BY inbox_waiting WHERE state = 'waiting' AND platform = ? AND place = ?
        """,
        (message.platform, place),
    ).fetchall()
    total, own = len(waiting), 0
    if total >= limits.per_person:
        author = message.payload["author"]["id"]
        own = sum(_author_id(payload) == author for (payload,) in waiting)
    if own >= limits.per_person or total >= limits.total:
        raise QueueFull(own if own >= limits.per_person else total)


def _author_id(payload: str) -> Any:
    author = json.loads(payload).get("author")
    return author.get("id") if isinstance(author, dict) else None


def _replace_payload(connection: Connection, message_id: str, payload: Payload) -> bool:
    written = connection.execute(
        "UPDATE inbox SET payload = ? WHERE id = ? AND state = 'waiting' AND attempts = 0",
        (_as_json(payload), message_id),
    )
    return written.rowcount > 0


def _waiting(connection: Connection, platform: str) -> list[InboxMessage]:
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


def _is_waiting(connection: Connection, message_id: str) -> bool:
    row = connection.execute("SELECT state FROM inbox WHERE id = ?", (message_id,)).fetchone()
    return row is not None and row[0] == "waiting"


def _latest_ids(connection: Connection, platform: str, *, limit: int) -> dict[Place, str]:
    # Padded with zeros, so that the largest number is the last one in alphabetical order.
    rows = connection.execute(
        f"""
        SELECT place, max(substr('{_ZEROS}' || number, length(number) + 1)) FROM inbox
        WHERE platform = ? AND place IS NOT NULL AND number <> ''
        GROUP BY place ORDER BY max(seq) DESC LIMIT ?
        """,
        (platform, limit),
    )
    found: dict[Place, str] = {}
    for place, number in rows:
        with suppress(ValueError):
            found[place_from(place)] = number.lstrip("0") or "0"
    return found


def _start_attempt(connection: Connection, message_id: str) -> int:
    row = connection.execute(
        "UPDATE inbox SET attempts = attempts + 1 WHERE id = ? RETURNING attempts", (message_id,)
    ).fetchone()
    return int(row[0]) if row else 0


def _mark_done(
    connection: Connection,
    message_ids: Sequence[str],
    *,
    conversation_id: str = "",
    notice_id: str = "",
    notice: str = "",
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


def _cancel_attempt(connection: Connection, message_id: str, times: int = 1) -> None:
    connection.execute(
        """
        UPDATE inbox SET attempts = CASE WHEN attempts > :times THEN attempts - :times ELSE 0 END WHERE id = :id
        """,
        {"times": times, "id": message_id},
    )


def _park(
    connection: Connection,
    message_ids: Sequence[str],
    reason: str,
    *,
    conversation_id: str = "",
    notice_id: str = "",
    notice: str = "",
) -> bool:
    connection.execute(
        "UPDATE inbox SET state = 'parked', reason = ? WHERE id = ? AND state = 'waiting'",
        (reason, message_ids[0]),
    )
    return _mark_done(
        connection, message_ids, conversation_id=conversation_id, notice_id=notice_id, notice=notice
    )


def _is_superseded(connection: Connection, message_id: str) -> bool:
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


def _unpark(connection: Connection, message_id: str) -> InboxMessage | None:
    row = connection.execute(
        """
        UPDATE inbox SET state = 'waiting', attempts = 0, reason = '' WHERE id = ? AND state = 'parked'
        RETURNING platform, id, payload, place, number, attempts
        """,
        (message_id,),
    ).fetchone()
    return _message_from(*row) if row else None


def _dismiss(connection: Connection, message_id: str) -> bool:
    written = connection.execute(
        "UPDATE inbox SET state = 'done', payload = '{}' WHERE id = ? AND state = 'parked'", (message_id,)
    )
    return written.rowcount > 0


def _purge_old(connection: Connection, before: float) -> bool:
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


class SqlInbox(Part):
    first_seen_at = write(_first_seen_at, durable=False)
    add = write(_add)
    replace_payload = write(_replace_payload)
    waiting = read(_waiting)
    is_waiting = read(_is_waiting)
    latest_ids = read(_latest_ids)
    start_attempt = write(_start_attempt, durable=False)
    cancel_attempt = write(_cancel_attempt, durable=False)
    mark_done = write(_mark_done)
    park = write(_park)
    parked = read(parked_messages)
    counts = read(inbox_counts)
    is_superseded = read(_is_superseded)
    unpark = write(_unpark)
    dismiss = write(_dismiss)

    async def purge_old(self) -> None:
        before = time.time() - _RETENTION_SECONDS
        while await self._database.write(_purge_old, before, fence=self._fence, durable=False):
            pass  # small steps, between which others write
