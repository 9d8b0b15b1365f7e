from __future__ import annotations

from datetime import datetime

from agent.context.branches import Branch, list_branches
from gateway.commands.registry import Command, CommandContext

LISTED = 10


async def _run(context: CommandContext, rest: str) -> str:
    lines = await list_branches(context.store, context.conversation, limit=LISTED)
    shown = [f"{number}. {_described(line)}" for number, line in enumerate(lines, start=1)]
    if len(lines) > 1:
        shown.append("\n/resume NUMBER continues one of them.")
    return "\n".join(shown)


def _described(line: Branch) -> str:
    count = "1 message" if line.messages == 1 else f"{line.messages} messages"
    words = line.name or (f"“{line.title}”" if line.title else "nothing said yet")
    here = " ← you are here" if line.is_live else ""
    return f"{dated(line.session.created_at)}, {count}: {words}{here}"


def dated(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp).astimezone().strftime("%Y-%m-%d %H:%M")


COMMAND = Command("sessions", "the sessions of this conversation; /resume goes back to one", _run)
