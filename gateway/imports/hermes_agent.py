"""hermes-agent's `state.db`: sessions that name their parents, each with its messages.

When hermes-agent compresses, the child begins with a summary and copies of what was kept (or, in newer versions, they
follow in the same session, and what they replace is marked). Here a child refers to its parent's messages, so copies
are recognised and not taken for something that was said again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from agent.messages import Message, Role, ToolCall
from agent.store import Address, SplitReason
from gateway.imports.model import (
    ImportedConversation,
    ImportedSession,
    address_of,
    message_id,
    session_id,
)
from gateway.imports.values import items, mapping, moment, text
from gateway.progress import tell
from gateway.store.foreign import AgentDatabase, AgentMessage, AgentSession

_STRUCTURED = ("\x00json:", "\x01json:")
_HANDED_OVER = (
    "[CONTEXT COMPACTION",
    "[CONTEXT SUMMARY]",
    "[PRIOR CONTEXT",
    "[Your active task list was preserved across context compression]",
)
"""How the texts begin that hermes-agent writes for the model when it compresses. Nobody said them."""

_Key = tuple[Any, ...]


def conversations(path: Path, *, person: str) -> Iterator[ImportedConversation]:
    """A tree of sessions each, read when it is asked for."""
    with AgentDatabase.open(path) as database:
        trees = _trees(database.sessions())
        for number, tree in enumerate(trees):
            tell("Reading conversations", number, len(trees))
            imported = _Tree(tree, person).read(database)
            if imported.messages:
                yield imported
        tell("Reading conversations", len(trees), len(trees))


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
        self._address: Address = address_of("hermes-agent", str(sessions[0].id))
        self._by_id = {session.id: session for session in sessions}
        self._said: dict[Any, dict[_Key, str]] = {}
        """By session: the ids of what was said in it and before it, by what it says."""
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
        known = dict(self._said.get(session.parent_session_id, {})) if is_child else {}
        copied = Counter(_key(row) for row in rows if row.compacted)
        context: list[str | Message] = []
        messages: list[Message] = []
        at_the_beginning = is_child
        for row in rows:
            key = _key(row)
            if row.role not in ("user", "assistant", "tool") or not (
                row.compacted or row.active in (None, 1)
            ):
                self._left_out += 1  # a system prompt; what was taken back
            elif _is_handed_over(row):
                if at_the_beginning:
                    context.append(self._message(session, row, kind="summary"))
            elif at_the_beginning and key in known:
                if known[key] not in context:
                    context.append(known[key])
            elif not row.compacted and copied[key] > 0:
                copied[key] -= 1  # kept in place: it stands above already
            else:
                at_the_beginning = False
                messages.append(self._message(session, row))
                known[key] = messages[-1].id
        self._said[session.id] = known
        return ImportedSession(
            session_id(self._address, str(session.id)),
            moment(session.started_at),
            messages,
            session_id(self._address, str(session.parent_session_id)) if is_child else None,
            self._reason(session) if is_child else None,
            text(session.model),
            context,
        )

    def _message(self, session: AgentSession, row: AgentMessage, *, kind: str = "said") -> Message:
        return Message(
            cast(Role, row.role),
            _content(row.content),
            tool_calls=_calls(row.tool_calls),
            tool_call_id=text(row.tool_call_id) or None if row.role == "tool" else None,
            name=text(row.tool_name) or None if row.role == "tool" else None,
            kind="summary" if kind == "summary" else "said",
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


def _key(row: AgentMessage) -> _Key:
    return (row.role, row.content, row.tool_calls, row.tool_call_id)


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
