# ruff: noqa: S608 - only our own conditions are put into the SQL; values are always bound
"""What is on its way: `gateway.store.ports.Outbox` in the store's database."""

from __future__ import annotations

import json
import sqlite3
import time
from dataclasses import asdict, replace
from typing import Any

from pydantic import TypeAdapter

from agent.ids import id_from
from gateway.store.ports import UNREADABLE, DeliveryProgress, Kind, OutboxItem
from gateway.store.sqlite.access import Run
from gateway.store.sqlite.queue_status import Counts, in_outbox
from gateway.store.sqlite.rows import place_from
from gateway.store.sqlite.validation import storable

_SHOWN_IN = TypeAdapter(tuple[str, ...])

_COLUMNS = """
    id, conversation_id, turn_id, reply_to, place, kind, content, state, shown_in, growing, dealt, rest, reason
"""

_IS_UNFINISHED = "platform = ? AND kind = 'text' AND content IS NULL AND state IN ('pending', 'sending')"

_WILL_BE_WRITTEN = """
    EXISTS (SELECT 1 FROM inbox WHERE inbox.id = outbox.turn_id AND inbox.state = 'waiting')
"""

_IS_ANSWERED_HERE = """
    EXISTS (SELECT 1 FROM inbox WHERE inbox.id = outbox.turn_id AND inbox.place IS NOT NULL)
"""


class StoredOutbox:
    """`write_soon` survives the end of the process, but not a power cut."""

    def __init__(self, read: Run, write: Run, write_soon: Run) -> None:
        self._read = read
        self._write = write
        self._write_soon = write_soon

    async def add(
        self, outgoing_id: str, *, conversation_id: str, turn_id: str, kind: Kind, content: str
    ) -> bool:
        return await self._write(_add, outgoing_id, conversation_id, turn_id, kind, content)

    async def note(self, platform: str, *outgoing: OutboxItem) -> None:
        # What is being sent must be known for certain; that it has arrived may be forgotten, for then it is in doubt.
        is_lasting = any(each.progress.state == "sending" for each in outgoing)
        await (self._write if is_lasting else self._write_soon)(_note_all, platform, outgoing)

    async def withdraw(self, platform: str) -> None:
        await self._write(_withdraw, platform)

    async def open(self, platform: str) -> list[OutboxItem]:
        readable, unreadable = await self._read(_open, platform)
        if unreadable:
            await self._write(_park_unreadable, unreadable)
        return readable

    async def counts(self) -> Counts:
        return await self._read(in_outbox)

    async def is_parked(self, outgoing_id: str) -> bool:
        return await self._read(_is_parked, outgoing_id)

    async def may_be_half_seen(self, turn_id: str) -> bool:
        return await self._read(_may_be_half_seen, turn_id)

    async def unpark(self, outgoing_id: str) -> tuple[str, OutboxItem] | None:
        return await self._write(_unpark, outgoing_id)

    async def dismiss(self, outgoing_id: str) -> bool:
        return await self._write(_dismiss, outgoing_id)


def put(
    connection: sqlite3.Connection,
    outgoing_id: str,
    *,
    conversation_id: str,
    turn_id: str,
    kind: Kind,
    content: str,
) -> bool:
    """In the transaction of whatever it tells of. It goes where the message came from; False if that is nowhere."""
    written = connection.execute(
        """
        INSERT INTO outbox (id, conversation_id, turn_id, reply_to, platform, place, kind, content, created_at)
        SELECT ?, ?, id, number, platform, place, ?, ?, ? FROM inbox WHERE id = ? AND place IS NOT NULL
        ON CONFLICT (id) DO UPDATE SET content = CASE state WHEN 'sent' THEN NULL ELSE excluded.content END
        """,
        (outgoing_id, conversation_id, kind, storable(content), time.time(), turn_id),
    )
    return written.rowcount > 0


def _add(
    connection: sqlite3.Connection,
    outgoing_id: str,
    conversation_id: str,
    turn_id: str,
    kind: Kind,
    content: str,
) -> bool:
    return put(
        connection,
        outgoing_id,
        conversation_id=conversation_id,
        turn_id=turn_id,
        kind=kind,
        content=content,
    )


def _note_all(connection: sqlite3.Connection, platform: str, outgoing: tuple[OutboxItem, ...]) -> None:
    for each in outgoing:
        if each.kind == "fleeting" and each.progress.state == "sent":
            connection.execute("DELETE FROM outbox WHERE id = ?", (each.id,))
        else:
            _note(connection, platform, each)


def _note(connection: sqlite3.Connection, platform: str, outgoing: OutboxItem) -> None:
    """What has arrived is forgotten but for the fact: its text is in the conversation."""
    progress = outgoing.progress
    has_arrived = progress.state == "sent"
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
            "id": outgoing.id,
            "conversation_id": outgoing.conversation_id,
            "turn_id": outgoing.turn_id,
            "reply_to": outgoing.reply_to,
            "platform": platform,
            "place": json.dumps(asdict(outgoing.place)),
            "kind": outgoing.kind,
            "content": None if has_arrived or outgoing.content is None else storable(outgoing.content),
            "state": progress.state,
            "shown_in": json.dumps(progress.shown_in),
            "growing": progress.growing,
            "dealt": progress.dealt,
            "rest": "" if has_arrived else storable(progress.rest),
            "reason": storable(progress.reason),
            "now": time.time(),
        },
    )


def _withdraw(connection: sqlite3.Connection, platform: str) -> None:
    # What was written from elsewhere, and is answered there, has nothing that must go.
    seen = connection.execute(
        f"""
        SELECT id, conversation_id, turn_id, reply_to, place, shown_in FROM outbox
        WHERE {_IS_UNFINISHED} AND shown_in <> '[]' AND {_IS_ANSWERED_HERE} ORDER BY seq
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
        f"DELETE FROM outbox WHERE {_IS_UNFINISHED} AND NOT (state = 'sending' AND {_WILL_BE_WRITTEN})",
        (platform,),
    )
    connection.execute(
        f"UPDATE outbox SET shown_in = '[]', growing = 0, dealt = 0, rest = '' WHERE {_IS_UNFINISHED}",
        (platform,),
    )


def _open(connection: sqlite3.Connection, platform: str) -> tuple[list[OutboxItem], list[str]]:
    """Those, and the ids of what another version of Hermes, or nobody, has written."""
    rows = connection.execute(
        f"""
        SELECT {_COLUMNS} FROM outbox WHERE state IN ('pending', 'sending') AND platform = ? ORDER BY seq
        """,
        (platform,),
    )
    readable, unreadable = [], []
    for row in rows:
        try:
            readable.append(_outgoing_from(*row))
        except ValueError:
            unreadable.append(row[0])
    return readable, unreadable


def _is_parked(connection: sqlite3.Connection, outgoing_id: str) -> bool:
    row = connection.execute("SELECT state FROM outbox WHERE id = ?", (outgoing_id,)).fetchone()
    return row is not None and row[0] == "parked"


def _may_be_half_seen(connection: sqlite3.Connection, turn_id: str) -> bool:
    query = (
        "SELECT 1 FROM outbox WHERE turn_id = ? AND kind = 'text' AND content IS NULL AND state = 'sending'"
    )
    return connection.execute(query, (turn_id,)).fetchone() is not None


def _unpark(connection: sqlite3.Connection, outgoing_id: str) -> tuple[str, OutboxItem] | None:
    """A text that the model never finished has no content, and there is nobody who would write it now."""
    row = connection.execute(
        f"SELECT platform, {_COLUMNS} FROM outbox WHERE id = ? AND state = 'parked' AND content IS NOT NULL",
        (outgoing_id,),
    ).fetchone()
    if row is None:
        return None
    try:
        outgoing = _outgoing_from(*row[1:])
    except ValueError:
        return None
    connection.execute("UPDATE outbox SET state = 'pending', reason = '' WHERE id = ?", (outgoing_id,))
    return row[0], replace(outgoing, progress=replace(outgoing.progress, state="pending", reason=""))


def _dismiss(connection: sqlite3.Connection, outgoing_id: str) -> bool:
    """As if it had arrived: whatever was to be done about it is done."""
    written = connection.execute(
        "UPDATE outbox SET state = 'sent', content = NULL, rest = '' WHERE id = ? AND state = 'parked'",
        (outgoing_id,),
    )
    return written.rowcount > 0


def _park_unreadable(connection: sqlite3.Connection, outgoing_ids: list[str]) -> None:
    connection.executemany(
        "UPDATE outbox SET state = 'parked', reason = ? WHERE id = ?",
        [(UNREADABLE, each) for each in outgoing_ids],
    )


def _outgoing_from(
    outgoing_id: str,
    conversation_id: str,
    turn_id: str,
    reply_to: str,
    place: str,
    kind: Kind,
    content: str | None,
    state: Any,
    shown_in: str,
    growing: int,
    *how_far: Any,
) -> OutboxItem:
    shown = _SHOWN_IN.validate_json(shown_in)
    progress = DeliveryProgress(state, shown, bool(growing and shown), *how_far)
    return OutboxItem(
        outgoing_id, conversation_id, turn_id, reply_to, place_from(place), kind, content, progress
    )
