from __future__ import annotations

from gateway.commands.registry import Command, CommandContext


async def _run(context: CommandContext, rest: str) -> str:
    live = await context.agent.open(context.conversation)
    await context.agent.reset(live)
    return "A new session begins. The earlier messages stay searchable."


COMMAND = Command("reset", "begin a new session; the old one stays searchable", _run, aliases=("new",))
