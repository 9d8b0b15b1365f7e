# ruff: noqa: S608 - only our own conditions are put into the SQL; values are always bound
"""`Outbox` in SQL."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from typing import Any

from pydantic import TypeAdapter

from agent.ids import id_from
from gateway.store.ports import UNREADABLE, DeliveryProgress, OutboxItem, OutboxKind
from gateway.store.sql.database import Connection, Part, read, write
from gateway.store.sql.reports import outbox_counts, parked_replies
from gateway.store.sql.rows import place_from, storable

_SHOWN_IN = TypeAdapter(tuple[str, ...])

_COLUMNS = """
    id, conversation_id, turn_id, reply_to, place, kind, content, state, shown_in, growing, dealt, rest, reason
"""

_UNFINISHED = "platform = ? AND kind = 'text' AND content IS NULL AND state IN ('pending', 'sending')"

_WILL_BE_REWRITTEN = """
    EXISTS (SELECT 1 FROM inbox WHERE inbox.id = outbox.turn_id AND inbox.state = 'waiting')
"""

_ANSWERED_HERE = """
    EXISTS (SELECT 1 FROM inbox WHERE inbox.id = outbox.turn_id AND inbox.place IS NOT NULL)
"""

_STORED_TRANSIENT = "fleeting"
"""The value of `kind` in the rows of transient items, as earlier versions of Hermes wrote it."""


def put(
    connection: Connection,
    item_id: str,
    *,
    conversation_id: str,
    turn_id: str,
    kind: OutboxKind,
    content: str,
) -> bool:
    """Add an item in the transaction of the event it reports. False if the inbox message has no place to reply to."""
    written = connection.execute(
        """
        INSERT INTO outbox (id, conversation_id, turn_id, reply_to, platform, place, kind, content, created_at)
        SELECT ?, ?, id, number, platform, place, ?, ?, ? FROM inbox WHERE id = ? AND place IS NOT NULL
        ON CONFLICT (id) DO UPDATE SET content = CASE outbox.state WHEN 'sent' THEN NULL ELSE excluded.content END
        """,
        (item_id, conversation_id, kind, storable(content), time.time(), turn_id),
    )
    return written.rowcount > 0


def _save_all(connection: Connection, platform: str, items: tuple[OutboxItem, ...]) -> None:
    for each in items:
        if each.kind == "transient" and each.progress.state == "sent":
            connection.execute("DELETE FROM outbox WHERE id = ?", (each.id,))
        else:
            _save(connection, platform, each)


def _save(connection: Connection, platform: str, item: OutboxItem) -> None:
    """Save one item. Once it is sent, its text is dropped: the conversation has it."""
    progress = item.progress
    is_sent = progress.state == "sent"
    connection.execute(
        """
        INSERT INTO outbox (id, conversation_id, turn_id, reply_to, platform, place, kind, content,
            state, shown_in, growing, dealt, rest, reason, created_at)
        VALUES (:id, :conversation_id, :turn_id, :reply_to, :platform, :place, :kind, :content,
            :state, :shown_in, :growing, :dealt, :rest, :reason, :now)
        ON CONFLICT (id) DO UPDATE SET
            state = :state, shown_in = :shown_in, growing = :growing, dealt = :dealt, rest = :rest, reason = :reason,
            content = CASE :state WHEN 'sent' THEN NULL ELSE outbox.content END
        """,
        {
            "id": item.id,
            "conversation_id": item.conversation_id,
            "turn_id": item.turn_id,
            "reply_to": item.reply_to,
            "platform": platform,
            "place": json.dumps(asdict(item.place)),
            "kind": _stored_kind(item.kind),
            "content": None if is_sent or item.content is None else storable(item.content),
            "state": progress.state,
            "shown_in": json.dumps(progress.shown_in),
            "growing": int(progress.is_streaming),
            "dealt": progress.sent_chars,
            "rest": "" if is_sent else storable(progress.remainder),
            "reason": storable(progress.reason),
            "now": time.time(),
        },
    )


def _stored_kind(kind: OutboxKind) -> str:
    return _STORED_TRANSIENT if kind == "transient" else kind


def _discard_unfinished(connection: Connection, platform: str) -> None:
    # Messages of another platform are answered there and show nothing here.
    seen = connection.execute(
        f"""
        SELECT id, conversation_id, turn_id, reply_to, place, shown_in FROM outbox
        WHERE {_UNFINISHED} AND shown_in <> '[]' AND {_ANSWERED_HERE} ORDER BY seq
        """,
        (platform,),
    ).fetchall()
    connection.executemany(
        """
        INSERT INTO outbox
            (id, platform, kind, growing, created_at, conversation_id, turn_id, reply_to, place, shown_in)
        VALUES (?, ?, 'fleeting', 1, ?, ?, ?, ?, ?, ?)
        """,
        [(id_from("out", text_id, row[-1]), platform, time.time(), *row) for text_id, *row in seen],
    )
    connection.execute(
        f"DELETE FROM outbox WHERE {_UNFINISHED} AND NOT (state = 'sending' AND {_WILL_BE_REWRITTEN})",
        (platform,),
    )
    connection.execute(
        f"UPDATE outbox SET shown_in = '[]', growing = 0, dealt = 0, rest = '' WHERE {_UNFINISHED}",
        (platform,),
    )


def _undelivered(connection: Connection, platform: str) -> tuple[list[OutboxItem], list[str]]:
    """Return the undelivered items, and the ids of rows that cannot be decoded."""
    rows = connection.execute(
        f"""
        SELECT {_COLUMNS} FROM outbox WHERE state IN ('pending', 'sending') AND platform = ? ORDER BY seq
        """,
        (platform,),
    )
    readable, unreadable = [], []
    for row in rows:
        try:
            readable.append(_item_from(*row))
        except ValueError:
            unreadable.append(row[0])
    return readable, unreadable


def _is_parked(connection: Connection, item_id: str) -> bool:
    row = connection.execute("SELECT state FROM outbox WHERE id = ?", (item_id,)).fetchone()
    return row is not None and row[0] == "parked"


def _may_be_half_seen(connection: Connection, turn_id: str) -> bool:
    query = (
        "SELECT 1 FROM outbox WHERE turn_id = ? AND kind = 'text' AND content IS NULL AND state = 'sending'"
    )
    return connection.execute(query, (turn_id,)).fetchone() is not None


def _unpark(connection: Connection, item_id: str) -> tuple[str, OutboxItem] | None:
    """Resume an item. An unfinished text has no content and cannot be resumed."""
    row = connection.execute(
        f"SELECT platform, {_COLUMNS} FROM outbox WHERE id = ? AND state = 'parked' AND content IS NOT NULL",
        (item_id,),
    ).fetchone()
    if row is None:
        return None
    try:
        item = _item_from(*row[1:])
    except ValueError:
        return None
    connection.execute("UPDATE outbox SET state = 'pending', reason = '' WHERE id = ?", (item_id,))
    return row[0], replace(item, progress=replace(item.progress, state="pending", reason=""))


def _dismiss(connection: Connection, item_id: str) -> bool:
    """Mark a parked item as sent."""
    written = connection.execute(
        "UPDATE outbox SET state = 'sent', content = NULL, rest = '' WHERE id = ? AND state = 'parked'",
        (item_id,),
    )
    return written.rowcount > 0


def _park_unreadable(connection: Connection, item_ids: list[str]) -> None:
    connection.executemany(
        "UPDATE outbox SET state = 'parked', reason = ? WHERE id = ?",
        [(UNREADABLE, each) for each in item_ids],
    )


def _item_from(
    item_id: str,
    conversation_id: str,
    turn_id: str,
    reply_to: str,
    place: str,
    kind: Any,
    content: str | None,
    state: Any,
    shown_in: str,
    growing: int,
    *how_far: Any,
) -> OutboxItem:
    shown = _SHOWN_IN.validate_json(shown_in)
    if kind == _STORED_TRANSIENT:
        kind = "transient"
    progress = DeliveryProgress(state, shown, bool(growing and shown), *how_far)
    return OutboxItem(item_id, conversation_id, turn_id, reply_to, place_from(place), kind, content, progress)


class SqlOutbox(Part):
    add = write(put)
    discard_unfinished = write(_discard_unfinished)
    counts = read(outbox_counts)
    parked = read(parked_replies)
    is_parked = read(_is_parked)
    may_be_half_seen = read(_may_be_half_seen)
    unpark = write(_unpark)
    dismiss = write(_dismiss)

    async def save_progress(self, platform: str, *items: OutboxItem) -> None:
        # The state `sending` must survive a power cut. If `sent` is lost, the outcome is unknown, which is handled.
        durable = any(item.progress.state == "sending" for item in items)
        await self._database.write(_save_all, platform, items, fence=self._fence, durable=durable)

    async def undelivered(self, platform: str) -> list[OutboxItem]:
        readable, unreadable = await self._database.read(_undelivered, platform)
        if unreadable:
            await self._database.write(_park_unreadable, unreadable, fence=self._fence)
        return readable
