from __future__ import annotations

from collections.abc import Iterable

from gateway.commands import Command, CommandContext

_GROUPS = {
    "While we talk": ("stop", "retry", "undo", "reset", "new"),
    "Earlier conversations": ("sessions", "resume", "branch", "search"),
    "The context": ("compress", "undo-compress", "status", "usage"),
    "You and Hermes": ("model", "whoami", "help"),
}
_OTHERS = "More"
"""Commands that plugins bring."""


async def _run(context: CommandContext, rest: str) -> str:
    usable = [command for command in context.commands.all if context.is_admin or not command.for_admins]
    return "\n\n".join(
        "\n".join((f"{title}:", *map(_line, commands))) for title, commands in _grouped(usable) if commands
    )


def _grouped(commands: Iterable[Command]) -> list[tuple[str, list[Command]]]:
    by_name = {command.name: command for command in commands}
    groups = [
        (title, [by_name.pop(name) for name in names if name in by_name]) for title, names in _GROUPS.items()
    ]
    return [*groups, (_OTHERS, list(by_name.values()))]


def _line(command: Command) -> str:
    names = ", ".join(f"/{name}" for name in (command.name, *command.aliases))
    argument = f" [{command.argument}]" if command.argument else ""
    only = " (admins only)" if command.for_admins else ""
    return f"{names}{argument}: {command.summary}{only}"


COMMAND = Command("help", "what you can type", _run)
