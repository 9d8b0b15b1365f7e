"""Branches of a conversation, and the undo of compactions.

Nothing is deleted: a step makes a child session that refers to the messages it keeps.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.context.child_session import child_session_from, for_engine, is_request
from agent.context.live import LiveContext
from agent.errors import StoreError
from agent.messages import Message, repair, without_notes
from agent.store import Conversation, Session, SessionStore, Split, SplitReason
from agent.tokens import estimate_messages_tokens_rough
from agent.untrusted import without_marks

COMPACTIONS: frozenset[SplitReason] = frozenset({"compression", "hygiene", "command"})

_STEPPED_AT_KEY = "stepped_at"
_NAMES_KEY = "session_names"
_TITLE = 60
_ONLY_IN_THE_SUMMARY = (
    "What was said before this is in the context only as the summary of a compaction. "
    "Use /undo-compress first, then try again."
)
_NOTHING_SAID = "Nothing has been said in this session yet."


@dataclass(frozen=True, slots=True)
class Branch:
    """A session that the conversation can continue from."""

    session: Session
    name: str
    """Empty if no person named the branch."""
    title: str
    messages: int
    is_live: bool


async def context_of(store: SessionStore, conversation: Conversation) -> LiveContext:
    session = await store.session(conversation.live_session_id)
    return LiveContext(store, conversation, session, await store.history(session.id))


async def branch_off(
    store: SessionStore, left: LiveContext, messages: Sequence[Message], *, system_prompt: str | None
) -> LiveContext:
    """Continue in a child session with these messages. Raises HeadMoved."""
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
    """Continue in this session of the conversation. Raises HeadMoved."""
    return await _stepped(store, await store.make_live(session_id, instead_of=left.session.id))


async def last_step(store: SessionStore, conversation: Conversation) -> float:
    """Return when a person last moved to another session; it counts as used from then on."""
    return float(await store.load_state(conversation.id, _STEPPED_AT_KEY) or 0.0)


def last_request(history: Sequence[Message]) -> int | None:
    """Return the index where the last exchange begins; None if there is none or a summary replaced it."""
    for index in reversed(range(len(history))):
        if _is_summary(history[index]):
            return None
        if is_request(history[index]):
            return index
    return None


def why_no_request(history: Sequence[Message]) -> str:
    """Return a sentence that explains why `last_request` found nothing."""
    return _ONLY_IN_THE_SUMMARY if any(map(_is_summary, history)) else _NOTHING_SAID


async def as_said(store: SessionStore, conversation: Conversation, message: Message) -> Message:
    """Return the whole message, if the context has only a truncated copy."""
    if message.source_id is None:
        return message
    said = await store.transcript(conversation.id)
    return next((each for each in said if each.id == message.source_id), message)


def first_words(text: str, limit: int = _TITLE) -> str:
    line = " ".join(without_marks(text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


async def list_branches(store: SessionStore, conversation: Conversation, *, limit: int) -> list[Branch]:
    """Return the newest branches first, and the live one in any case."""
    live, names = conversation.live_session_id, await _names(store, conversation)
    lines: list[Branch] = []
    for session in _heads(await store.sessions(conversation.id), live):
        if len(lines) >= limit and session.id != live:
            continue
        history = await store.history(session.id)
        name = names.get(session.id, "")
        if session.id == live or name or _has_own_messages(session, history):
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
    await store.save_state(conversation.id, _NAMES_KEY, json.dumps(names))


async def _stepped(store: SessionStore, conversation: Conversation) -> LiveContext:
    await store.save_state(conversation.id, _STEPPED_AT_KEY, str(time.time()))
    return await context_of(store, conversation)


async def _names(store: SessionStore, conversation: Conversation) -> dict[str, str]:
    names: dict[str, str] = json.loads(await store.load_state(conversation.id, _NAMES_KEY) or "{}")
    return names


def _heads(sessions: Sequence[Session], live: str) -> list[Session]:
    """Return the sessions that no compaction continued, the newest first."""
    newest = _newest_children(sessions)

    def is_head(session: Session) -> bool:
        return session.id not in newest or newest[session.id].reason not in COMPACTIONS

    return [session for session in reversed(sessions) if session.id == live or is_head(session)]


def _newest_children(sessions: Sequence[Session]) -> dict[str, Session]:
    return {session.parent_id: session for session in sessions if session.parent_id is not None}


def _since_the_reset(lineage: Sequence[Session]) -> set[str]:
    """Return the sessions that the live one builds on."""
    ids: set[str] = set()
    for session in reversed(lineage):
        ids.add(session.id)
        if session.reason == "reset":
            break
    return ids


def _has_own_messages(session: Session, history: Sequence[Message]) -> bool:
    """Return whether something was said in the session."""
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


NOTHING_TO_UNDO = "There is nothing to undo: no compaction keeps anything out of this context."


@dataclass(frozen=True, slots=True)
class UndoResult:
    """The session that was live before, and the one that is live now."""

    left: LiveContext
    live: LiveContext

    def __str__(self) -> str:
        before, after = (len(without_notes(live.history)) for live in (self.left, self.live))
        tokens = f"~{tokens_in(self.left):,} -> ~{tokens_in(self.live):,} tokens"
        return f"{before} -> {after} messages, {tokens}"


def tokens_in(live: LiveContext) -> int:
    return estimate_messages_tokens_rough(for_engine(live.system_prompt, live.history))


async def undo_compaction(store: SessionStore, conversation: Conversation) -> UndoResult | None:
    """Undo the last compaction that still keeps something out; None if there was none since the last reset."""
    left = await context_of(store, conversation)
    line = await store.lineage(left.session.id)
    for index in reversed(range(1, len(line))):
        if line[index].reason == "reset":
            break
        if line[index].reason in COMPACTIONS:
            earlier, wanted = await _restored(store, line[index - 1 :])
            # A branch may have brought back already what this one keeps out: then an earlier one is meant.
            if _said(left.history) < _said(wanted):
                return await _go_back(store, left, line[index - 1].id, earlier, wanted)
    return None


async def restore(store: SessionStore, conversation: Conversation, session_id: str) -> UndoResult:
    """Go back to this ancestor of the live session, even before a reset."""
    left = await context_of(store, conversation)
    line = await store.lineage(left.session.id)
    ids = [session.id for session in line]
    if session_id not in ids[:-1]:
        raise StoreError(
            f"{session_id} is not an ancestor of the live session; `hermes sessions lineage` lists the ancestors."
        )
    earlier, wanted = await _restored(store, line[ids.index(session_id) :])
    if missing := _said(left.history) - _said(wanted):
        raise StoreError(
            f"{len(missing)} messages of the live context are not in {session_id}, which is smaller; "
            "`/compress` is for that."
        )
    return await _go_back(store, left, session_id, earlier, wanted)


async def _restored(
    store: SessionStore, line: Sequence[Session]
) -> tuple[Sequence[Message], Sequence[Message]]:
    """Return the context of the first session, as it was and followed by what its descendants in the line added."""
    earlier = history = await store.history(line[0].id)
    since, taken_out = list[Message](), set[str]()
    for session in line[1:]:
        before, history = history, await store.history(session.id)
        taken_out |= _taken_out(session, before, history)
        since += _own(session.id, history)
    return earlier, [message for message in (*earlier, *since) if _original(message) not in taken_out]


async def _go_back(
    store: SessionStore,
    left: LiveContext,
    session_id: str,
    earlier: Sequence[Message],
    wanted: Sequence[Message],
) -> UndoResult:
    if list(wanted) == list(earlier):
        return UndoResult(left, await go_to(store, left, session_id))
    restored = await store.session(session_id)
    return UndoResult(left, await branch_off(store, left, wanted, system_prompt=restored.system_prompt))


def _own(session_id: str, history: Iterable[Message]) -> list[Message]:
    """Return what was said in the session itself, with its notes, without copies from the parent."""
    return [
        message
        for message in history
        if message.session_id == session_id and message.kind in ("said", "note") and not message.source_id
    ]


def _said(messages: Iterable[Message]) -> set[str]:
    return {message.id for message in messages if message.kind == "said"}


def _taken_out(session: Session, before: Iterable[Message], history: Iterable[Message]) -> set[str]:
    """Return what a branch left behind: messages that `/undo` removed, or that came later on the other branch."""
    if session.reason != "branch":
        return set()
    kept = {_original(message) for message in history}
    return {_original(message) for message in before if message.kind != "summary"} - kept


def _original(message: Message) -> str:
    """Return the id of the message that a truncated copy was made from."""
    return message.source_id or message.id
