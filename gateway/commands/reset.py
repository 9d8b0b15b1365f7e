from __future__ import annotations

from agent.store import Split
from gateway.commands import Command, CommandContext


async def _run(context: CommandContext, rest: str) -> str:
    live = await context.agent.open(context.conversation)
    child = await context.store.split(Split(live.session.id, "reset"))
    await context.agent.keeper.compactor.seats.reset(live, child)
    return "A new session begins. What was said before stays searchable."


COMMAND = Command("reset", "begin a new session; the old one stays searchable", _run)
