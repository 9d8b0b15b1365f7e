from __future__ import annotations

from collections.abc import Iterable

from gateway.commands.registry import Command, CommandContext

_GROUPS = {
    "While we talk": ("stop", "retry", "undo", "reset"),
    "Earlier conversations": ("sessions", "resume", "branch", "search"),
    "The context": ("compress", "undo-compress", "status", "usage"),
    "You and Hermes": ("model", "memory", "whoami", "help"),
}
_OTHERS = "More"
"""The heading of the plugins' commands."""


async def _run(context: CommandContext, rest: str) -> str:
    hyphen = context.commands.hyphen_on(context.conversation.address.platform)
    usable = [command for command in context.commands.all if context.is_admin or not command.for_admins]
    return "\n\n".join(
        "\n".join((f"{title}:", *(_line(command, hyphen) for command in commands)))
        for title, commands in _grouped(usable)
        if commands
    )


def _grouped(commands: Iterable[Command]) -> list[tuple[str, list[Command]]]:
    by_name = {command.name: command for command in commands}
    groups = [
        (title, [by_name.pop(name) for name in names if name in by_name]) for title, names in _GROUPS.items()
    ]
    return [*groups, (_OTHERS, list(by_name.values()))]


def _line(command: Command, hyphen: str) -> str:
    names = ", ".join(f"/{name.replace('-', hyphen)}" for name in (command.name, *command.aliases))
    argument = f" [{command.argument}]" if command.argument else ""
    only = " (admins only)" if command.for_admins else ""
    return f"{names}{argument}: {command.summary}{only}"


COMMAND = Command("help", "what you can type", _run)
