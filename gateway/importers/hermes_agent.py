# ruff: noqa: S608 - only names of our own tables and columns are put into the SQL; values are always bound
"""hermes-agent's `state.db`: sessions that name their parents, each with its messages.

When hermes-agent compresses, the child begins with a summary and copies of what was kept (or, in newer versions, they
follow in the same session, and what they replace is marked). Here a child refers to its parent's messages, so copies
are recognised and not taken for something that was said again.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, cast

from agent.messages import Message, Role, ToolCall
from agent.store import Address, SplitReason
from gateway.errors import ImportRefused
from gateway.importers.parsing import items, mapping, moment, text
from gateway.progress import report
from gateway.store.import_types import (
    ImportedConversation,
    ImportedSession,
    Unreadable,
    address_of,
    message_id,
    session_id,
)
from gateway.store.sqlite.backup import opened

Key = tuple[str, ...]
"""What a row says. Of a call and its result the ids: their texts may have been shortened in the copy."""

_MOST_AT_THE_HEAD = 8
_LOOKED_AHEAD = 16
"""Rows."""


class Copies:
    """Goes through a session's rows with `original_of`, once for each row in order."""

    def __init__(self, before: Sequence[tuple[Key, str]], keys: Sequence[Key | None]) -> None:
        """`before` is what its ancestors said, with the ids it has here. In `keys`, None stands for a summary."""
        self.said = list(before)
        self._keys = keys
        self._heads = _heads([key for key, _ in before[:_MOST_AT_THE_HEAD]], keys)
        self._copying = bool(before)
        self._reached = 0

    def summary(self) -> None:
        """Copies may follow."""
        self._copying = True
        self._reached = 0

    def original_of(self, number: int, key: Key) -> str | None:
        """The id of what the row repeats; None where it is new."""
        if number in self._heads or self._copying:
            found = self._find(number, key, 0 if number in self._heads else self._reached)
            if found is not None:
                self._reached = found + 1
                return self.said[found][1]
        self._copying = False
        return None

    def note(self, key: Key, message_id: str) -> None:
        """It is new."""
        self.said.append((key, message_id))

    def _find(self, number: int, key: Key, start: int) -> int | None:
        """Where several rows say the same, as calls do that are numbered from zero in every turn, the one that is
        followed by what follows here; the first of equals."""
        places = (at for at in range(start, len(self.said)) if self.said[at][0] == key)
        return max(places, key=lambda at: self._run(number, at), default=None)

    def _run(self, number: int, at: int) -> int:
        """How many rows from here on continue alike."""
        rows = self._keys[number : number + _LOOKED_AHEAD]
        pairs = zip(rows, self.said[at : at + _LOOKED_AHEAD], strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1][0], pairs))


def _heads(first: Sequence[Key], keys: Sequence[Key | None]) -> set[int]:
    """The rows just before a summary that repeat how it all began."""
    first = first or [key for key in keys[:_MOST_AT_THE_HEAD] if key is not None]
    found: set[int] = set()
    for at in (at for at, key in enumerate(keys) if key is None):
        for count in range(min(len(first), at // 2), 0, -1):
            if list(keys[at - count : at]) == list(first[:count]):
                found.update(range(at - count, at))
                break
    return found


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
        if "conversation_id" in self._columns("sessions"):
            raise ImportRefused("it is a database of this Hermes; `hermes restore` puts it in place.")
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
        there = self._columns(table)
        missing = [name for name in wanted[:required] if name not in there]
        if missing:
            raise ImportRefused(f"{_NOT_ONE}: its table `{table}` has no {', '.join(missing)}.")
        return [name if name in there else "NULL" for name in wanted]

    def _columns(self, table: str) -> set[str]:
        rows = self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        return {name for (name,) in rows}


_STRUCTURED = ("\x00json:", "\x01json:")
_HANDED_OVER = (
    "[CONTEXT COMPACTION",
    "[CONTEXT SUMMARY]",
    "[PRIOR CONTEXT",
    "[Your active task list was preserved across context compression]",
)
"""How the texts begin that hermes-agent writes for the model when it compresses. Nobody said them."""


def check(path: Path) -> None:
    """Raises ImportRefused if it is something else."""
    with AgentDatabase.open(path) as database:
        database.sessions()


def conversations(path: Path, *, person: str) -> Iterator[ImportedConversation | Unreadable]:
    """A tree of sessions each, read when it is asked for. One that makes no sense does not stand before the others."""
    with AgentDatabase.open(path) as database:
        trees = _trees(database.sessions())
        for number, tree in enumerate(trees):
            report("Reading conversations", number, len(trees))
            try:
                imported = _Tree(tree, person).read(database)
            except ImportRefused as error:
                yield Unreadable(_address(tree), error.detail)
                continue
            if imported.messages:
                yield imported
        report("Reading conversations", len(trees), len(trees))


def _trees(sessions: list[AgentSession]) -> list[list[AgentSession]]:
    """Each with its root first, parents before their children, otherwise by age."""
    by_id = {session.id: session for session in sessions}
    children: dict[Any, list[AgentSession]] = {}
    roots: list[AgentSession] = []
    for session in sessions:
        if session.parent_session_id in by_id and not _is_in_a_circle(session, by_id):
            children.setdefault(session.parent_session_id, []).append(session)
        else:
            roots.append(session)
    trees = []
    for root in roots:
        tree = [root]
        for session in tree:  # grows meanwhile
            tree += children.get(session.id, [])
        trees.append(tree)
    return trees


def _is_in_a_circle(session: AgentSession, by_id: dict[Any, AgentSession]) -> bool:
    seen = {session.id}
    above = by_id.get(session.parent_session_id)
    while above is not None:
        if above.id in seen:
            return True
        seen.add(above.id)
        above = by_id.get(above.parent_session_id)
    return False


class _Tree:
    """One conversation in the making."""

    def __init__(self, sessions: list[AgentSession], person: str) -> None:
        self._sessions = sessions
        self._person = person
        self._address = _address(sessions)
        self._by_id = {session.id: session for session in sessions}
        self._said: dict[Any, list[tuple[Key, str]]] = {}
        """By session: what was said before it and in it, with the ids it has here."""
        self._left_out = 0

    def read(self, database: AgentDatabase) -> ImportedConversation:
        made = [self._session(session, database.messages(session.id)) for session in self._sessions]
        live = self._sessions[0]
        # Where it is now: along what continues it, not into what branched off it.
        for session in self._sessions:
            if session.parent_session_id == live.id and self._reason(session) != "branch":
                live = session
        return ImportedConversation(
            self._address, self._person, made, session_id(self._address, str(live.id)), self._left_out
        )

    def _session(self, session: AgentSession, rows: list[AgentMessage]) -> ImportedSession:
        is_child = session is not self._sessions[0]
        rows = [row for row in rows if self._counts(row)]
        keys = [None if _is_handed_over(row) else _key(row) for row in rows]
        # After a reset nothing is copied: whoever greets again has greeted twice.
        has_copies = is_child and self._reason(session) != "reset"
        copies = Copies(self._said[session.parent_session_id] if has_copies else [], keys)
        context: dict[str, str | Message] = {}
        messages: list[Message] = []
        for number, (row, key) in enumerate(zip(rows, keys, strict=True)):
            made = self._message(session, row, is_summary=key is None)
            if key is None:
                copies.summary()
                if is_child and not messages:
                    context[made.id] = made
            elif original := copies.original_of(number, key):
                if is_child and not messages:
                    context[original] = original
            else:
                messages.append(made)
                copies.note(key, made.id)
        self._said[session.id] = copies.said
        return ImportedSession(
            session_id(self._address, str(session.id)),
            moment(session.started_at),
            messages,
            session_id(self._address, str(session.parent_session_id)) if is_child else None,
            self._reason(session) if is_child else None,
            text(session.model),
            list(context.values()),
        )

    def _counts(self, row: AgentMessage) -> bool:
        """Not a system prompt, and not what was taken back."""
        is_there = row.compacted == 1 or row.active in (None, 1)
        is_said = row.role in ("user", "assistant", "tool") and is_there
        self._left_out += not is_said
        return is_said

    def _message(self, session: AgentSession, row: AgentMessage, *, is_summary: bool) -> Message:
        return Message(
            cast(Role, row.role),
            _content(row.content),
            tool_calls=_calls(row.tool_calls),
            tool_call_id=text(row.tool_call_id) or None if row.role == "tool" else None,
            name=text(row.tool_name) or None if row.role == "tool" else None,
            kind="summary" if is_summary else "said",
            id=message_id(self._address, str(session.id), str(row.id)),
            created_at=moment(row.timestamp, session.started_at),
        )

    def _reason(self, session: AgentSession) -> SplitReason:
        ended = text(self._by_id[session.parent_session_id].end_reason)
        configured = text(session.model_config)
        if "_branched_from" in configured or "_delegate_from" in configured or session.source == "tool":
            return "branch"
        if ended in ("compression", "compaction"):
            return "compression"
        return "reset" if "reset" in ended or "new" in ended else "branch"


def _address(tree: list[AgentSession]) -> Address:
    return address_of("hermes-agent", str(tree[0].id))


def _key(row: AgentMessage) -> Key:
    if row.role == "tool" and row.tool_call_id:
        return ("tool", str(row.tool_call_id))
    if calls := [call.id for call in _calls(row.tool_calls) if call.id]:
        return ("calls", *calls)
    return (str(row.role), text(row.content))


def _is_handed_over(row: AgentMessage) -> bool:
    return _content(row.content).lstrip().startswith(_HANDED_OVER)


def _content(stored: Any) -> str:
    """Of what is more than text, the text."""
    said = text(stored)
    if not said.startswith(_STRUCTURED):
        return said
    try:
        parts = json.loads(said.partition(":")[2])
    except (ValueError, RecursionError):
        return said
    if isinstance(parts, str):
        return parts
    texts = [
        text(mapping(part).get("text")) or f"[{mapping(part).get('type', 'part')}]" for part in items(parts)
    ]
    return "\n".join(texts)


def _calls(stored: Any) -> tuple[ToolCall, ...]:
    try:
        given = items(json.loads(text(stored) or "[]"))
    except (ValueError, RecursionError):
        return ()
    calls = []
    for call in map(mapping, given):
        function = mapping(call.get("function"))
        arguments = function.get("arguments", "")
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        calls.append(ToolCall(text(call.get("id")), text(function.get("name")) or "unknown", written))
    return tuple(calls)
