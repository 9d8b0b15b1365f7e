from __future__ import annotations

from gateway.commands.registry import Command, CommandContext


async def _run(context: CommandContext, rest: str) -> str:
    return "Stopped." if context.stop_turn(context.conversation.id) else "Nothing is running."


COMMAND = Command("stop", "end the answer that is being written", _run, overtakes=True)
