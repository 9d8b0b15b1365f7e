from __future__ import annotations

from gateway.commands import Command, CommandContext


async def _run(context: CommandContext, rest: str) -> str:
    live = await context.agent.open(context.conversation)
    seat = await context.agent.keeper.compactor.seats.of(live)
    llm, engine = context.agent.llm, seat.engine
    ancestors = len(await context.store.lineage(live.session.id)) - 1
    return "\n".join(
        (
            f"Model: {llm.model}, window {llm.context_length:,} tokens",
            f"Conversation: {live.conversation.id}",
            f"Session: {live.session.id}, {len(live.history)} messages, {ancestors} ancestors",
            f"In the window: {live.session.prompt_tokens or 0:,} tokens",
            f"Context engine: {engine.name}, compacts at {engine.threshold_tokens:,} tokens",
        )
    )


COMMAND = Command("status", "model, session and context engine of this conversation", _run)
