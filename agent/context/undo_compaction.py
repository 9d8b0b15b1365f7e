"""Undo of a compaction: an ancestor's whole context becomes live again, followed by the messages since.

Nothing is deleted, and no message leaves the live context. If there are messages since the compaction, a branch refers
to them; otherwise only the pointer moves. Messages that `/undo` removed stay removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.context.branches import COMPACTIONS, branch_off, context_of, go_to
from agent.context.child_session import for_engine
from agent.context.live import LiveContext
from agent.errors import StoreError
from agent.messages import Message, without_notes
from agent.store import Conversation, Session, SessionStore
from agent.tokens import estimate_messages_tokens_rough

NOTHING_TO_UNDO = "There is nothing to undo: no compaction keeps anything out of this context."


@dataclass(frozen=True, slots=True)
class UndoResult:
    """The session that was live before, and the one that is live now."""

    left: LiveContext
    live: LiveContext

    def __str__(self) -> str:
        return (
            f"{_counted(self.left)} -> {_counted(self.live)} messages, "
            f"~{tokens_in(self.left):,} -> ~{tokens_in(self.live):,} tokens"
        )


def _counted(live: LiveContext) -> int:
    return len(without_notes(live.history))


def tokens_in(live: LiveContext) -> int:
    """Estimate the tokens of a context; estimates are compared only with estimates."""
    return estimate_messages_tokens_rough(for_engine(live.system_prompt, live.history))


async def undo_compaction(store: SessionStore, conversation: Conversation) -> UndoResult | None:
    """Back before the last compaction that still keeps something out. None if there was none since the last reset."""
    left = await context_of(store, conversation)
    since = _own(left.session.id, left.history)
    history, taken_out = left.history, set[str]()
    for session in reversed(await store.lineage(left.session.id)):
        if session.parent_id is None or session.reason == "reset":
            break
        earlier = await store.history(session.parent_id)
        taken_out |= _taken_out(session, earlier, history)
        wanted = _without(taken_out, [*earlier, *since])
        # A branch may have brought back already what this one keeps out: then an earlier one is meant.
        if session.reason in COMPACTIONS and _said(left.history) < _said(wanted):
            return await _go_back(store, left, session.parent_id, earlier, wanted)
        since = [*_own(session.parent_id, earlier), *since]
        history = earlier
    return None


async def restore(store: SessionStore, conversation: Conversation, session_id: str) -> UndoResult:
    """Back to this ancestor of the live session, be it before a reset."""
    left = await context_of(store, conversation)
    line = await store.lineage(left.session.id)
    ids = [session.id for session in line]
    if session_id not in ids[:-1]:
        raise StoreError(
            f"{session_id} is not an ancestor of the live session; `hermes sessions lineage` lists the ancestors."
        )
    earlier = history = await store.history(session_id)
    since, taken_out = list[Message](), set[str]()
    for later in line[ids.index(session_id) + 1 :]:
        before, history = history, await store.history(later.id)
        taken_out |= _taken_out(later, before, history)
        since += _own(later.id, history)
    wanted = _without(taken_out, [*earlier, *since])
    if missing := _said(left.history) - _said(wanted):
        raise StoreError(
            f"{len(missing)} messages of the live context are not in {session_id}, which is smaller; "
            "`/compress` is for that."
        )
    return await _go_back(store, left, session_id, earlier, wanted)


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


def _without(taken_out: set[str], messages: Iterable[Message]) -> list[Message]:
    return [message for message in messages if _original(message) not in taken_out]


def _original(message: Message) -> str:
    """Return the id of the message that a truncated copy was made from."""
    return message.source_id or message.id
