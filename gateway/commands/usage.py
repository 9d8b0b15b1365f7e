from __future__ import annotations

from agent.llm import Usage
from gateway.commands import Command, CommandContext


async def _run(context: CommandContext, rest: str) -> str:
    store, conversation = context.store, context.conversation
    session = await store.session(conversation.live_session_id)
    compactions = await store.compactions(conversation.id)
    window = (await context.agent.models.of(conversation)).context_length
    filled = (session.prompt_tokens or 0) / window
    return "\n".join(
        (
            f"In the window: {session.prompt_tokens or 0:,} of {window:,} tokens ({filled:.0%})",
            f"This conversation: {described(await store.usage(conversation_id=conversation.id))}",
            f"Compactions: {len(compactions)}",
        )
    )


def described(usage: Usage) -> str:
    """Tokens in and out, what the cache served, and the price."""
    cost = "price unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    cached = (
        f" ({usage.cache_read_tokens / usage.prompt_tokens:.0%} cached)" if usage.cache_read_tokens else ""
    )
    return f"{usage.prompt_tokens:,} tokens in{cached}, {usage.completion_tokens:,} out, {cost}"


COMMAND = Command("usage", "tokens and cost of this conversation", _run)
