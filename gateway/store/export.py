# ruff: noqa: S608 - only our own fragments and lists of columns are put into the SQL; values are always bound
"""Reads conversations from end to end without holding more than a few messages, while others may write."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from agent.messages import Message
from agent.store import Overview, Session
from gateway.store import reads
from gateway.store.connection import connect_reader
from gateway.store.errors import translated
from gateway.store.rows import MESSAGE_COLUMNS, messages_from

_AT_A_TIME = 200
_ALL = 1_000_000_000


class Exporter:
    """Made by `open`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Exporter]:
        """One view of the database to the end."""
        # Only what the store is asked is translated: what its user writes meanwhile may fail for reasons of its own.
        with translated():
            connection = connect_reader(path)
        with closing(connection):
            connection.execute("BEGIN")
            yield cls(connection)

    def conversations(
        self, *, person: str | None = None, platform: str | None = None, since: float = 0.0
    ) -> list[Overview]:
        """Those in which something was said since then, the one that was quiet longest first."""
        with translated():
            found = reads.conversations(self._connection, person, platform, _ALL)
        return [each for each in reversed(found) if each.messages and each.updated_at >= since]

    def sessions(self, conversation_id: str) -> list[Session]:
        with translated():
            return reads.sessions(self._connection, conversation_id)

    def messages(
        self, conversation_id: str, *, since: float = 0.0, every_session: bool = False
    ) -> Iterator[Message]:
        """What was said, oldest first: along the live session's ancestors, or in `every_session`."""
        with translated():
            numbers = iter(self._numbers(conversation_id, since, every_session=every_session))
        while some := list(islice(numbers, _AT_A_TIME)):
            with translated():
                messages = self._some(some)
            yield from messages

    def _numbers(self, conversation_id: str, since: float, *, every_session: bool) -> list[int]:
        live = reads.conversation(self._connection, conversation_id).live_session_id
        ancestry = f"{reads.ANCESTRY} SELECT session_id FROM ancestry"
        of_all = "SELECT id FROM sessions WHERE conversation_id = ?"
        rows = self._connection.execute(
            f"""
            SELECT seq FROM messages
            WHERE session_id IN ({of_all if every_session else ancestry}) AND kind = 'said' AND created_at >= ?
            ORDER BY seq
            """,
            (conversation_id if every_session else live, since),
        )
        return [seq for (seq,) in rows]

    def _some(self, numbers: list[int]) -> list[Message]:
        rows = self._connection.execute(
            f"""
            SELECT {MESSAGE_COLUMNS} FROM messages
            WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq
            """,
            (json.dumps(numbers),),
        )
        return messages_from(rows)
