from __future__ import annotations

from agent.context_plan import LiveContext
from agent.messages import without_notes
from agent.prompt_size import last_prompt_tokens
from gateway.commands import Command, CommandContext


async def _run(context: CommandContext, rest: str) -> str:
    live = await context.agent.open(context.conversation)
    if rest == "--preview":
        return await _preview(context, live)
    outcome = await context.agent.keeper.compactor.compact(live, "command", focus=rest or None)
    troubles = context.agent.keeper.compactor.seats.troubles
    troubles.untold(context.conversation.id, "compress")  # the answer tells it, so no notice has to
    if outcome.compacted and not outcome.trouble:
        troubles.over(context.conversation.id, "compress")
    if outcome.compacted is None:
        return outcome.detail
    return f"Compressed: {outcome.detail.rstrip('.')}." + (f" Focus: {rest}." if rest else "")


async def _preview(context: CommandContext, live: LiveContext) -> str:
    """What stands in the window and when it is compacted, without asking a model."""
    seat = await context.agent.keeper.compactor.seats.of(live)
    tokens = last_prompt_tokens(live)
    return (
        f"{len(without_notes(live.history))} messages, ~{tokens:,} tokens; "
        f"{seat.name} compacts by itself at {seat.state.threshold_tokens:,} tokens."
    )


COMMAND = Command(
    "compress",
    "summarise older messages now; name a topic to keep more of it, or --preview",
    _run,
    argument="topic",
)
