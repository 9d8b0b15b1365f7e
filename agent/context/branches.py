"""Steps within a conversation: branching off, taking the last exchange out, and the lines one can go back to.

Nothing is deleted: a step makes a child session that refers to what it keeps, and what was left stays as it was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from agent.context.child_session import child_session_from, for_engine, is_request
from agent.context.live import LiveContext
from agent.messages import Message, repair, without_notes
from agent.store import Conversation, Session, SessionStore, Split, SplitReason
from agent.untrusted import without_marks

COMPACTIONS: frozenset[SplitReason] = frozenset({"compression", "hygiene", "command"})

_STEPPED_AT = "stepped_at"
"""Names the state that holds when the last step was taken."""
_NAMES = "session_names"
"""Names the state that holds the names people gave to branches, by session."""
_TITLE = 60
_ONLY_IN_THE_SUMMARY = (
    "What was said before this is in the context only as the summary of a compaction. "
    "/undo-compress brings it back; after that it can be taken out."
)
_NOTHING_SAID = "Nothing has been said in this session yet."


@dataclass(frozen=True, slots=True)
class Branch:
    """A session that the conversation can continue from."""

    session: Session
    name: str
    """The name that a person gave the branch, or empty."""
    title: str
    """The first words of its first message."""
    messages: int
    is_live: bool


async def context_of(store: SessionStore, conversation: Conversation) -> LiveContext:
    session = await store.session(conversation.live_session_id)
    return LiveContext(store, conversation, session, await store.history(session.id))


async def branch_off(
    store: SessionStore, left: LiveContext, messages: Sequence[Message], *, system_prompt: str | None
) -> LiveContext:
    """The conversation goes on in a child session with these messages. Raises HeadMoved."""
    child = await store.split(
        Split(
            left.session.id,
            "branch",
            _references(system_prompt or "", messages),
            system_prompt,
            engine=left.session.engine,
            model=left.session.model,
        )
    )
    return await _stepped(store, await store.conversation(child.conversation_id))


async def go_to(store: SessionStore, left: LiveContext, session_id: str) -> LiveContext:
    """The conversation goes on in this session of its own. Raises HeadMoved."""
    return await _stepped(store, await store.make_live(session_id, instead_of=left.session.id))


async def last_step(store: SessionStore, conversation: Conversation) -> float:
    """Return when a person last moved to another session; it counts as used from then on."""
    return float(await store.load_state(conversation.id, _STEPPED_AT) or 0.0)


def last_request(history: Sequence[Message]) -> int | None:
    """Return the index where the last exchange begins; None if there is none or a summary replaced it."""
    for index in reversed(range(len(history))):
        if _is_summary(history[index]):
            return None
        if is_request(history[index]):
            return index
    return None


def why_no_request(history: Sequence[Message]) -> str:
    """A sentence for where `last_request` finds nothing."""
    return _ONLY_IN_THE_SUMMARY if any(map(_is_summary, history)) else _NOTHING_SAID


async def as_said(store: SessionStore, conversation: Conversation, message: Message) -> Message:
    """The whole message, where the context holds only a shortened copy of it."""
    if message.source_id is None:
        return message
    said = await store.transcript(conversation.id)
    return next((each for each in said if each.id == message.source_id), message)


def first_words(text: str, limit: int = _TITLE) -> str:
    line = " ".join(without_marks(text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


async def list_branches(store: SessionStore, conversation: Conversation, *, limit: int) -> list[Branch]:
    """The newest first, and the live one in any case."""
    live, names = conversation.live_session_id, await _names(store, conversation)
    lines: list[Branch] = []
    for session in _heads(await store.sessions(conversation.id), live):
        if len(lines) >= limit and session.id != live:
            continue
        history = await store.history(session.id)
        name = names.get(session.id, "")
        if session.id == live or name or _is_worth_a_line(session, history):
            count = len(without_notes(history))
            lines.append(Branch(session, name, _title(history), count, session.id == live))
    return lines


async def branch_through(store: SessionStore, conversation: Conversation, session_id: str) -> str | None:
    """Return the branch that continues this session; None if the session is not part of this conversation."""
    sessions = await store.sessions(conversation.id)
    if session_id not in {session.id for session in sessions}:
        return None
    lineage = await store.lineage(conversation.live_session_id)
    if session_id in _since_the_reset(lineage):
        return conversation.live_session_id
    newest = _newest_children(sessions)
    while session_id in newest and newest[session_id].reason in COMPACTIONS:
        session_id = newest[session_id].id
    return session_id


async def name_branch(store: SessionStore, conversation: Conversation, session_id: str, name: str) -> None:
    names = await _names(store, conversation) | {session_id: name}
    await store.save_state(conversation.id, _NAMES, json.dumps(names))


async def _stepped(store: SessionStore, conversation: Conversation) -> LiveContext:
    await store.save_state(conversation.id, _STEPPED_AT, str(time.time()))
    return await context_of(store, conversation)


async def _names(store: SessionStore, conversation: Conversation) -> dict[str, str]:
    names: dict[str, str] = json.loads(await store.load_state(conversation.id, _NAMES) or "{}")
    return names


def _heads(sessions: Sequence[Session], live: str) -> list[Session]:
    """Those that no compaction has carried on, the newest first."""
    newest = _newest_children(sessions)

    def is_head(session: Session) -> bool:
        return session.id not in newest or newest[session.id].reason not in COMPACTIONS

    return [session for session in reversed(sessions) if session.id == live or is_head(session)]


def _newest_children(sessions: Sequence[Session]) -> dict[str, Session]:
    return {session.parent_id: session for session in sessions if session.parent_id is not None}


def _since_the_reset(lineage: Sequence[Session]) -> set[str]:
    """The sessions whose messages the live one builds on."""
    ids: set[str] = set()
    for session in reversed(lineage):
        ids.add(session.id)
        if session.reason == "reset":
            break
    return ids


def _is_worth_a_line(session: Session, history: Sequence[Message]) -> bool:
    """An empty one is not, and neither is a branch in which nothing was said: it was only a step."""
    if session.reason == "branch":
        return any(message.session_id == session.id and message.kind == "said" for message in history)
    return bool(history)


def _title(history: Sequence[Message]) -> str:
    asked = (message.content for message in history if is_request(message))
    return first_words(next(asked, ""))


def _is_summary(message: Message) -> bool:
    """Return whether an engine wrote the message as a summary; the stub of a lost tool result is not one."""
    return message.kind == "summary" and message.role != "tool"


def _references(system_prompt: str, messages: Sequence[Message]) -> list[str | Message]:
    """Return the messages by id, with a stub for each call that has no result: providers require one."""
    given = for_engine(system_prompt, messages)
    plan = child_session_from(given, repair(given), messages)
    return plan.context if plan else [message.id for message in messages]
