from __future__ import annotations

from gateway.commands import Command, CommandContext


async def _run(context: CommandContext, rest: str) -> str:
    store, llm = context.store, context.agent.llm
    session = await store.session(context.conversation.live_session_id)
    messages = len(await store.history(session.id))
    usage = await store.usage(conversation_id=context.conversation.id)
    cost = "price unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    return "\n".join(
        (
            f"Model: {llm.model}, window {llm.context_length:,} tokens",
            f"Session: {session.id}, {messages} messages, {session.prompt_tokens or 0:,} tokens in the window",
            f"Used in this conversation: {usage.prompt_tokens:,} tokens in, {usage.completion_tokens:,} out, {cost}",
        )
    )


COMMAND = Command("status", "model, window and usage of this conversation", _run)
