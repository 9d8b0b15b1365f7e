from __future__ import annotations

from gateway.commands import Command, CommandContext


async def _run(context: CommandContext, rest: str) -> str:
    return "\n".join(f"{_typed(command)}: {command.summary}" for command in context.commands.all)


def _typed(command: Command) -> str:
    return ", ".join(f"/{name}" for name in (command.name, *command.aliases))


COMMAND = Command("help", "what you can type", _run)
