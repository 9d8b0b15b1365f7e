# ruff: noqa: S608 - only names of columns that are listed here are put into the SQL; values are always bound
"""Reads the database of hermes-agent, which keeps sessions and messages, too, and changes nothing in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from gateway.errors import ImportRefused
from gateway.store.backup import opened

_NOT_ONE = "it is not a database of hermes-agent"


class AgentSession(NamedTuple):
    """A row of its `sessions`. All but the first two are missing in some of its versions."""

    id: Any
    started_at: Any
    parent_session_id: Any
    end_reason: Any
    model: Any
    model_config: Any
    source: Any


class AgentMessage(NamedTuple):
    """A row of its `messages`."""

    id: Any
    role: Any
    content: Any
    timestamp: Any
    tool_calls: Any
    tool_call_id: Any
    tool_name: Any
    active: Any
    compacted: Any


class AgentDatabase:
    """Made by `open`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._messages = ", ".join(self._available("messages", AgentMessage._fields, required=4))

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[AgentDatabase]:
        try:
            with opened(path, "ro") as connection:
                connection.execute("BEGIN")  # one view of it, should its owner be writing
                yield cls(connection)
        except sqlite3.Error as error:
            raise ImportRefused(f"{_NOT_ONE}, or it is damaged ({error}).") from error

    def sessions(self) -> list[AgentSession]:
        columns = ", ".join(self._available("sessions", AgentSession._fields, required=2))
        rows = self._connection.execute(f"SELECT {columns} FROM sessions ORDER BY started_at, rowid")
        return [AgentSession(*row) for row in rows]

    def messages(self, session_id: Any) -> list[AgentMessage]:
        rows = self._connection.execute(
            f"SELECT {self._messages} FROM messages WHERE session_id = ? ORDER BY id", (session_id,)
        )
        return [AgentMessage(*row) for row in rows]

    def _available(self, table: str, wanted: tuple[str, ...], *, required: int) -> list[str]:
        """What this version of it has; NULL stands for the rest."""
        rows = self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
        there = {name for (name,) in rows}
        if "conversation_id" in there:
            raise ImportRefused(
                "it is a database of this Hermes; `hermes restore` puts such a file in place."
            )
        missing = [name for name in wanted[:required] if name not in there]
        if missing:
            raise ImportRefused(f"{_NOT_ONE}: its table `{table}` has no {', '.join(missing)}.")
        return [name if name in there else "NULL" for name in wanted]
