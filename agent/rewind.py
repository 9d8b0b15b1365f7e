"""Going back before a compaction: an ancestor's whole context is live again, with what was said since behind it.

Nothing is deleted, and nothing that was said leaves the live context. Where the conversation has gone on since, what
was said goes along by reference into a branch; where it has not, the pointer just moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.context_plan import LiveContext, for_engine, plan_from
from agent.errors import StoreError
from agent.messages import Message
from agent.store import Conversation, SessionStore, Split, SplitReason
from agent.tokens import estimate_messages_tokens_rough
from agent.tool_pairs import repair

NOTHING_TO_UNDO = "There is nothing to undo: no compaction keeps anything out of this context."

_COMPACTIONS: frozenset[SplitReason] = frozenset({"compression", "hygiene", "command"})


@dataclass(frozen=True, slots=True)
class Rewound:
    """What was live, and what is now."""

    left: LiveContext
    live: LiveContext

    def __str__(self) -> str:
        return (
            f"{len(self.left.history)} -> {len(self.live.history)} messages, "
            f"~{tokens_in(self.left):,} -> ~{tokens_in(self.live):,} tokens"
        )


def tokens_in(live: LiveContext) -> int:
    """Estimated: for a context that was never sent nobody has counted, and only like can be compared with like."""
    return estimate_messages_tokens_rough(for_engine(live.system_prompt, live.history))


async def undo_compaction(store: SessionStore, conversation: Conversation) -> Rewound | None:
    """Back before the last compaction that still keeps something out. None if there was none since the last reset."""
    left = await _context_of(store, conversation)
    since = _own(left.session.id, left.history)
    for session in reversed(await store.lineage(left.session.id)):
        if session.parent_id is None or session.reason == "reset":
            break
        earlier = await store.history(session.parent_id)
        # A branch may have brought back already what this one keeps out: then an earlier one is meant.
        if session.reason in _COMPACTIONS and _said(left.history) < _said([*earlier, *since]):
            return await _go_back(store, left, session.parent_id, earlier, since)
        since = [*_own(session.parent_id, earlier), *since]
    return None


async def restore(store: SessionStore, conversation: Conversation, session_id: str) -> Rewound:
    """Back to this ancestor of the live session, be it before a reset."""
    left = await _context_of(store, conversation)
    line = [session.id for session in await store.lineage(left.session.id)]
    if session_id not in line[:-1]:
        raise StoreError(
            f"{session_id} is no ancestor of the live session; `hermes sessions lineage` shows those that are."
        )
    earlier = await store.history(session_id)
    since: list[Message] = []
    for later in line[line.index(session_id) + 1 :]:
        since += _own(later, await store.history(later))
    if missing := _said(left.history) - _said([*earlier, *since]):
        raise StoreError(
            f"{len(missing)} messages of the live context are not in {session_id}, which is smaller; "
            "`/compress` is for that."
        )
    return await _go_back(store, left, session_id, earlier, since)


async def _go_back(
    store: SessionStore,
    left: LiveContext,
    session_id: str,
    earlier: Sequence[Message],
    since: Sequence[Message],
) -> Rewound:
    if not since:
        conversation = await store.make_live(session_id, instead_of=left.session.id)
        return Rewound(left, await _context_of(store, conversation))
    restored = await store.session(session_id)
    branch = await store.split(
        Split(
            left.session.id,
            "branch",
            _references(restored.system_prompt or "", [*earlier, *since]),
            restored.system_prompt,
            engine=left.session.engine,
            model=left.session.model,
        )
    )
    conversation = await store.conversation(branch.conversation_id)
    return Rewound(left, await _context_of(store, conversation))


def _references(system_prompt: str, messages: Sequence[Message]) -> list[str | Message]:
    """With a stub for a call that a stop or a crash left open at the seam: providers want a result right after it."""
    given = for_engine(system_prompt, messages)
    plan = plan_from(given, repair(given), messages)
    return plan.context if plan else [message.id for message in messages]


async def _context_of(store: SessionStore, conversation: Conversation) -> LiveContext:
    session = await store.session(conversation.live_session_id)
    return LiveContext(conversation, session, await store.history(session.id))


def _own(session_id: str, history: Iterable[Message]) -> list[Message]:
    """What was said in the session itself."""
    return [message for message in history if message.session_id == session_id and message.kind == "said"]


def _said(messages: Iterable[Message]) -> set[str]:
    return {message.id for message in messages if message.kind == "said"}
