from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from agent.messages import without_notes
from agent.store import Compaction, Session
from gateway.commands import Command, CommandContext
from gateway.text.counted import counted


async def _run(context: CommandContext, rest: str) -> str:
    """Only looks: a turn may be running, and nothing here may wait for it or get in its way."""
    store, conversation = context.store, context.conversation
    llm = await context.agent.models.of(conversation)
    session = await store.session(conversation.live_session_id)
    history = without_notes(await store.history(session.id))
    compactions = await store.compactions(conversation.id)
    ancestors = len(await store.lineage(session.id)) - 1
    return "\n".join(
        (
            f"Model: {llm.model}, window {llm.context_length:,} tokens",
            f"Conversation: {conversation.id}",
            f"Session: {session.id}, {counted(len(history), 'message')}, {counted(ancestors, 'ancestor')}",
            f"In the window: {in_the_window(session, compactions)[1]} tokens",
            f"Context engine: {_engine(context)}",
            *_waiting(context),
        )
    )


def in_the_window(session: Session, compactions: Sequence[tuple[str, Compaction]]) -> tuple[int, str]:
    """Tokens, as the provider reported them; between a compaction and the next call of the model, as estimated."""
    done = dict(compactions).get(session.id)
    if done and not session.prompt_tokens:
        return done.tokens_after, f"~{done.tokens_after:,}"
    return session.prompt_tokens or 0, f"{session.prompt_tokens or 0:,}"


def _waiting(context: CommandContext) -> Iterator[str]:
    """Others have no use for the names of settings."""
    if context.is_admin and context.needs_restart:
        yield f"Changed in hermes.yaml, but only from the next start on: {', '.join(context.needs_restart)}"
    if context.is_admin and context.refused:
        yield f"hermes.yaml was changed and cannot be used; the settings from before count: {' '.join(context.refused)}"


def _engine(context: CommandContext) -> str:
    compactor = context.agent.keeper.compactor
    seat = compactor.seats.known(context.conversation.id)
    if seat is None:
        return "at rest until the next message"
    threshold = seat.engine.threshold_tokens
    told = f"{seat.engine.name}, compacts at {threshold:,} tokens"
    early = ceil(threshold * compactor.background_at)
    return f"{told}, prepared from {early:,} on" if early < threshold else told


COMMAND = Command(
    "status", "model, session and context engine of this conversation, at any time", _run, overtakes=True
)
