from __future__ import annotations

from agent.context.live import LiveContext, last_prompt_tokens
from agent.messages import without_notes
from gateway.commands.registry import Command, CommandContext


async def _run(context: CommandContext, rest: str) -> str:
    live = await context.agent.open(context.conversation)
    if rest == "--preview":
        return await _preview(context, live)
    outcome = await context.agent.compact(live, focus=rest or None)
    if outcome.compacted is None:
        return outcome.detail
    return f"Compressed: {outcome.detail.rstrip('.')}." + (f" Focus: {rest}." if rest else "")


async def _preview(context: CommandContext, live: LiveContext) -> str:
    """Report what fills the window and when it is compacted, without calling a model."""
    engine = await context.agent.start_engine(live)
    tokens = last_prompt_tokens(live)
    return (
        f"{len(without_notes(live.history))} messages, ~{tokens:,} tokens; "
        f"{engine.name} compacts by itself at {engine.threshold_tokens:,} tokens."
    )


COMMAND = Command(
    "compress",
    "summarise older messages now; name a topic to keep more of it, or --preview",
    _run,
    argument="topic",
)
