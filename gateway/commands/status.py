from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from agent.context.auto_compaction import in_words
from agent.context.live import LiveContext, last_prompt_tokens
from agent.llm import LLMClient
from agent.messages import without_notes
from agent.store import Session
from gateway.commands.registry import Command, CommandContext
from gateway.text.display import pluralize


async def _run(context: CommandContext, rest: str) -> str:
    """Only read: a turn may be running, and this command neither waits for it nor disturbs it."""
    store, conversation = context.store, context.conversation
    llm = await context.agent.models.of(conversation)
    session = await store.session(conversation.live_session_id)
    history = without_notes(await store.history(session.id))
    ancestors = len(await store.lineage(session.id)) - 1
    return "\n".join(
        (
            f"Model: {llm.model}, window {llm.context_length:,} tokens",
            *[line async for line in _about_the_model(context, llm)],
            f"Conversation: {conversation.id}",
            f"Session: {session.id}, {pluralize(len(history), 'message')}, {pluralize(ancestors, 'ancestor')}",
            f"In the window: {(await in_the_window(context, session))[1]} tokens",
            *await _engine(context),
            *_waiting(context),
        )
    )


async def in_the_window(context: CommandContext, session: Session) -> tuple[int, str]:
    """Return the tokens of the last prompt, as the provider reported them. They are estimated if the report cannot be
    true, and between a compaction and the next model call."""
    store, conversation = context.store, context.conversation
    if not session.prompt_tokens:
        done = dict(await store.compactions(conversation.id)).get(session.id)
        return (done.tokens_after, f"~{done.tokens_after:,}") if done else (0, "0")
    tools = await context.agent.tools_tokens(conversation)
    tokens = last_prompt_tokens(
        LiveContext(store, conversation, session, await store.history(session.id), tools)
    )
    return tokens, f"{tokens:,}" if tokens == session.prompt_tokens else f"~{tokens:,}"


def _replaced(context: CommandContext) -> Iterator[str]:
    """Report an engine that was replaced. The reasons name folders, so only admins see them."""
    if context.is_admin:
        yield from (f"Warning: {notice}" for notice in context.notices)
    elif context.unusable_engine:
        yield f"Warning: the context engine `{context.unusable_engine}` cannot be used; the built-in one is in use"


async def _about_the_model(context: CommandContext, llm: LLMClient) -> AsyncIterator[str]:
    """Report another model that answered last, and windows that are smaller than the catalog says."""
    used = await context.agent.models.in_use(context.conversation)
    if used.model != llm.model:
        yield f"The last answer came from {used.model}, window {used.context_length:,} tokens"
    if context.is_admin:
        summariser = await context.agent.summariser(context.conversation)
        for window in await context.store.learned_windows():
            found = window.model, window.tokens
            if found == (used.model, used.context_length):
                yield in_words(window, context.agent.models.default_name)
            elif found == (summariser.model, summariser.context_length):
                yield in_words(window, context.agent.models.default_name, summarises=True)


def _waiting(context: CommandContext) -> Iterator[str]:
    """Report changed settings, to admins only."""
    if context.is_admin and context.restart_required:
        yield f"Changed in hermes.yaml, in effect after a restart: {', '.join(context.restart_required)}"
    if context.is_admin and context.rejected:
        yield f"The changed hermes.yaml has a mistake, so the old settings apply: {' '.join(context.rejected)}"


async def _engine(context: CommandContext) -> list[str]:
    """Describe the context engine."""
    engine = await context.agent.engine_status(context.conversation)
    if engine is None:
        return ["Context engine: at rest until the next message", *_replaced(context)]
    own, problem = await context.agent.engine_report(context.conversation)
    told = f"{engine.name}, compacts at {engine.compacts_at:,} tokens"
    if engine.prepared_from < engine.compacts_at:
        told += f", prepares from {engine.prepared_from:,}"
    about = "; ".join([told, *(f"{name}: {value}" for name, value in own.items())])
    problems = [f"The context engine does not work: {problem}"] if problem else []
    return [f"Context engine: {about}", *_replaced(context), *problems]


COMMAND = Command(
    "status", "model, session and context engine of this conversation, at any time", _run, overtakes=True
)
