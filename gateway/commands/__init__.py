"""Slash commands, one file each. They are answered by Hermes and never reach the model.

A command file exports `COMMAND`; its name is what people type.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from agent.loop import Agent
from agent.store import Conversation, SessionStore


@dataclass(frozen=True, slots=True)
class CommandContext:
    """What a command may touch."""

    conversation: Conversation
    store: SessionStore
    agent: Agent
    commands: Commands
    stop_turn: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    summary: str
    run: Callable[[CommandContext, str], Awaitable[str]]
    """Gets the text behind the name, gives the answer."""
    aliases: tuple[str, ...] = ()
    overtakes: bool = False
    """Runs at once, even while a turn is running."""


class Commands:
    """All commands by name and alias."""

    def __init__(self, commands: list[Command]) -> None:
        self.all = sorted(commands, key=lambda command: command.name)
        self._by_name = {name: command for command in self.all for name in (command.name, *command.aliases)}

    @classmethod
    def discover(cls, more: Sequence[Command] = ()) -> Commands:
        """Every file of this package, and those that plugins bring."""
        names = [found.name for found in pkgutil.iter_modules(__path__)]
        modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
        return cls([*(module.COMMAND for module in modules), *more])

    def overtakes(self, text: str) -> bool:
        command = self._by_name.get(_split(text)[0]) if is_command(text) else None
        return command is not None and command.overtakes

    async def run(self, text: str, context: CommandContext) -> str:
        name, rest = _split(text)
        if command := self._by_name.get(name):
            return await command.run(context, rest)
        near = difflib.get_close_matches(name, self._by_name, n=1)
        return f"There is no /{name}. " + (
            f"Did you mean /{near[0]}?" if near else "/help lists the commands."
        )


def is_command(text: str) -> bool:
    """`/word`, not a path such as `/etc/hosts` and not a lone slash."""
    name = _split(text)[0]
    return text.startswith("/") and name.replace("-", "").replace("_", "").isalnum()


def _split(text: str) -> tuple[str, str]:
    """`/Help me` -> ("help", "me")."""
    name, _, rest = text.removeprefix("/").partition(" ")
    return name.strip().lower(), rest.strip()
