# ruff: noqa: S608 - only names of our own tables and columns are put into the SQL; values are always bound
"""Exports of all conversations: one consistent snapshot, read in batches while others write."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice

from agent.messages import Message
from agent.store import Overview, Session
from gateway.store.errors import translated
from gateway.store.sqlite import reads
from gateway.store.sqlite.connection import connect_reader
from gateway.store.sqlite.database import Database
from gateway.store.sqlite.rows import MESSAGE_COLUMNS, messages_from

_BATCH = 200
_ALL = 1_000_000_000


class SqliteExport:
    """Opens snapshots, each on a connection of its own that belongs to the calling thread."""

    def __init__(self, database: Database) -> None:
        self._path = database.path

    @contextmanager
    def snapshot(self) -> Iterator[SqliteSnapshot]:
        # Only calls of the database are translated: the caller's own file may fail for other reasons.
        with translated():
            connection = connect_reader(self._path)
        with closing(connection):
            connection.execute("BEGIN")
            yield SqliteSnapshot(connection)


class SqliteSnapshot:
    """One read transaction over the whole database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def conversations(
        self, *, person: str | None = None, platform: str | None = None, since: float = 0.0
    ) -> list[Overview]:
        """Return conversations with messages since then, the one with the oldest activity first."""
        with translated():
            found = reads.conversations(self._connection, person, platform, _ALL)
        return [each for each in reversed(found) if each.messages and each.updated_at >= since]

    def sessions(self, conversation_id: str) -> list[Session]:
        with translated():
            return reads.sessions(self._connection, conversation_id)

    def messages(
        self, conversation_id: str, *, since: float = 0.0, every_session: bool = False
    ) -> Iterator[Message]:
        """Yield the messages of the live session and its ancestors, or of `every_session`, oldest first."""
        with translated():
            seqs = iter(self._seqs(conversation_id, since, every_session=every_session))
        while batch := list(islice(seqs, _BATCH)):
            with translated():
                messages = self._read(batch)
            yield from messages

    def _seqs(self, conversation_id: str, since: float, *, every_session: bool) -> list[int]:
        live = reads.conversation(self._connection, conversation_id).live_session_id
        ancestry = f"{reads.ANCESTRY} SELECT session_id FROM ancestry"
        whole = "SELECT id FROM sessions WHERE conversation_id = ?"
        rows = self._connection.execute(
            f"""
            SELECT seq FROM messages
            WHERE session_id IN ({whole if every_session else ancestry}) AND kind = 'said' AND created_at >= ?
            ORDER BY seq
            """,
            (conversation_id if every_session else live, since),
        )
        return [seq for (seq,) in rows]

    def _read(self, seqs: list[int]) -> list[Message]:
        rows = self._connection.execute(
            f"""
            SELECT {MESSAGE_COLUMNS} FROM messages
            WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq
            """,
            (json.dumps(seqs),),
        )
        return messages_from(rows)
