# ruff: noqa: S608 - only names of our own tables and columns are put into the SQL; values are always bound
"""Reads `state.db` of hermes-agent: sessions with parents, each with its messages.

When hermes-agent compresses, the child session begins with a summary and copies of the kept messages (in newer versions
these follow in the same session, and the replaced messages are marked). Here a child session refers to the messages of
its parent, so copies are recognised and not imported as new messages.
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
"""The content by which copies of a row are recognised; ids for tool calls and results, which may be truncated."""

_MOST_AT_THE_HEAD = 8
_LOOKED_AHEAD = 16
"""The number of rows that are compared."""


class Copies:
    """Finds the originals of copied rows; call `original_of` once for each row of a session, in order."""

    def __init__(self, before: Sequence[tuple[Key, str]], keys: Sequence[Key | None]) -> None:
        """`before` are the messages of the ancestors with their new ids. In `keys`, None is a summary."""
        self.said = list(before)
        self._keys = keys
        self._heads = _heads([key for key, _ in before[:_MOST_AT_THE_HEAD]], keys)
        self._copying = bool(before)
        self._reached = 0

    def summary(self) -> None:
        """Expect copies from here on."""
        self._copying = True
        self._reached = 0

    def original_of(self, number: int, key: Key) -> str | None:
        """Return the id of the original; None if the row is new."""
        if number in self._heads or self._copying:
            found = self._find(number, key, 0 if number in self._heads else self._reached)
            if found is not None:
                self._reached = found + 1
                return self.said[found][1]
        self._copying = False
        return None

    def note(self, key: Key, message_id: str) -> None:
        """Record a row that is not a copy."""
        self.said.append((key, message_id))

    def _find(self, number: int, key: Key, start: int) -> int | None:
        """Return the best of several equal rows (tool calls may be numbered from zero in every turn): the one with the
        longest common continuation, or the first."""
        places = (at for at in range(start, len(self.said)) if self.said[at][0] == key)
        return max(places, key=lambda at: self._run(number, at), default=None)

    def _run(self, number: int, at: int) -> int:
        """Count the equal rows from here on."""
        rows = self._keys[number : number + _LOOKED_AHEAD]
        pairs = zip(rows, self.said[at : at + _LOOKED_AHEAD], strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1][0], pairs))


def _heads(first: Sequence[Key], keys: Sequence[Key | None]) -> set[int]:
    """Return the rows before a summary that repeat the start of the conversation."""
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
    """A row of `sessions`. All columns but the first two are missing in some versions."""

    id: Any
    started_at: Any
    parent_session_id: Any
    end_reason: Any
    model: Any
    model_config: Any
    source: Any


class AgentMessage(NamedTuple):
    """A row of `messages`."""

    id: Any
    role: Any
    content: Any
    timestamp: Any
    tool_calls: Any
    tool_call_id: Any
    tool_name: Any
    active: Any
    compacted: Any


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the database for one read transaction, while hermes-agent may write. Raises ImportRefused."""
    try:
        with opened(path, "ro") as connection:
            connection.execute("BEGIN")
            if "conversation_id" in _columns(connection, "sessions"):
                raise ImportRefused("it is a database of this Hermes; `hermes restore` puts it in place.")
            yield connection
    except sqlite3.Error as error:
        raise ImportRefused(f"{_NOT_ONE}, or it is damaged ({error}).") from error


def _sessions(connection: sqlite3.Connection) -> list[AgentSession]:
    columns = _available(connection, "sessions", AgentSession._fields, required=2)
    rows = connection.execute(f"SELECT {columns} FROM sessions ORDER BY started_at, rowid")
    return [AgentSession(*row) for row in rows]


def _messages(connection: sqlite3.Connection, session: AgentSession) -> list[AgentMessage]:
    columns = _available(connection, "messages", AgentMessage._fields, required=4)
    rows = connection.execute(
        f"SELECT {columns} FROM messages WHERE session_id = ? ORDER BY id", (session.id,)
    )
    return [AgentMessage(*row) for row in rows]


def _available(connection: sqlite3.Connection, table: str, wanted: tuple[str, ...], *, required: int) -> str:
    """Return the columns of this version, with NULL for missing ones."""
    there = _columns(connection, table)
    if missing := [name for name in wanted[:required] if name not in there]:
        raise ImportRefused(f"{_NOT_ONE}: its table `{table}` has no {', '.join(missing)}.")
    return ", ".join(name if name in there else "NULL" for name in wanted)


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    rows = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return {name for (name,) in rows}


_STRUCTURED = ("\x00json:", "\x01json:")
_HANDED_OVER = (
    "[CONTEXT COMPACTION",
    "[CONTEXT SUMMARY]",
    "[PRIOR CONTEXT",
    "[Your active task list was preserved across context compression]",
)
"""The first words of texts that hermes-agent writes itself when it compresses."""


def check(path: Path) -> None:
    """Check the file. Raises ImportRefused if it is not a database of hermes-agent."""
    with _opened(path) as connection:
        _sessions(connection)
        _available(connection, "messages", AgentMessage._fields, required=4)


def conversations(path: Path, *, person: str) -> Iterator[ImportedConversation | Unreadable]:
    """Yield one conversation per tree of sessions, read on demand. An unreadable one does not stop the others."""
    with _opened(path) as connection:
        trees = _trees(_sessions(connection))
        for number, tree in enumerate(trees):
            report("Reading conversations", number, len(trees))
            try:
                imported = _Tree(tree, person).read(connection)
            except ImportRefused as error:
                yield Unreadable(_address(tree), error.detail)
                continue
            if imported.messages:
                yield imported
        report("Reading conversations", len(trees), len(trees))


def _trees(sessions: list[AgentSession]) -> list[list[AgentSession]]:
    """Return the trees of sessions, each with parents before children, otherwise by age."""
    by_id = {session.id: session for session in sessions}
    children: dict[Any, list[AgentSession]] = {}
    roots: list[AgentSession] = []
    for session in sessions:
        if session.parent_session_id in by_id and not _is_in_a_circle(session, by_id):
            children.setdefault(session.parent_session_id, []).append(session)
        else:
            roots.append(session)
    trees = [[root] for root in roots]
    for tree in trees:
        for session in tree:  # grows meanwhile
            tree += children.get(session.id, [])
    return trees


def _is_in_a_circle(session: AgentSession, by_id: dict[Any, AgentSession]) -> bool:
    seen = set()
    above: AgentSession | None = session
    while above is not None and above.id not in seen:
        seen.add(above.id)
        above = by_id.get(above.parent_session_id)
    return above is not None


class _Tree:
    """Builds one conversation."""

    def __init__(self, sessions: list[AgentSession], person: str) -> None:
        self._sessions = sessions
        self._person = person
        self._address = _address(sessions)
        self._by_id = {session.id: session for session in sessions}
        self._said: dict[Any, list[tuple[Key, str]]] = {}
        """The messages before and in each session, with their new ids."""
        self._left_out = 0

    def read(self, connection: sqlite3.Connection) -> ImportedConversation:
        made = [self._session(session, _messages(connection, session)) for session in self._sessions]
        live = self._sessions[0]
        # The live session: along continuations, not into branches.
        for session in self._sessions:
            if session.parent_session_id == live.id and self._reason(session) != "branch":
                live = session
        return ImportedConversation(
            self._address, self._person, made, session_id(self._address, str(live.id)), self._left_out
        )

    def _session(self, session: AgentSession, rows: list[AgentMessage]) -> ImportedSession:
        is_child = session is not self._sessions[0]
        rows = [row for row in rows if self._counts(row)]
        keys = [
            None if _content(row.content).lstrip().startswith(_HANDED_OVER) else _key(row) for row in rows
        ]
        # A reset copies nothing, so equal messages after it are new.
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
        """Tell whether the row is a message, not a system prompt or a retracted message."""
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


def _content(stored: Any) -> str:
    """Return the text of content with several parts."""
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
