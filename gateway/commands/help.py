from __future__ import annotations

from gateway.commands import Command, CommandContext


async def _run(context: CommandContext, rest: str) -> str:
    return "\n".join(f"/{command.name}: {command.summary}" for command in context.commands.all)


COMMAND = Command("help", "what you can type", _run)
