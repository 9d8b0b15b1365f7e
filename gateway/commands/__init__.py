"""Slash commands, one file each. They are answered by Hermes and never reach the model.

A command file exports `COMMAND`; its name is what people type.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from agent.loop import Agent
from agent.messages import ChatDict
from agent.store import Conversation, SessionStore
from gateway.limits.budget import DailyBudget


@dataclass(frozen=True, slots=True)
class CommandContext:
    """What a command may touch."""

    conversation: Conversation
    store: SessionStore
    agent: Agent
    commands: Commands
    stop_turn: Callable[[str], bool]
    author: str
    """Who typed it: `telegram:4711`, or the owner."""
    is_admin: bool
    """The owner at this machine always is."""
    budget: DailyBudget
    group: str = ""
    """What `allowed_groups` calls this group. Empty in a direct chat."""
    needs_restart: Sequence[str] = ()
    refused: Sequence[str] = ()
    """The settings that were changed and count from the next start on."""
    notices: Sequence[str] = ()
    """What the owner should know about plugins and the context engine."""
    unusable_engine: str = ""
    """The `context.engine` that the built-in one had to replace."""


@dataclass(frozen=True, slots=True)
class Again:
    """A command's answer that begins a turn: the message goes to the model as if it had just been written."""

    notice: str
    text: str
    parts: tuple[ChatDict, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    summary: str
    run: Callable[[CommandContext, str], Awaitable[str | Again]]
    """Gets the text behind the name, gives the answer."""
    aliases: tuple[str, ...] = ()
    argument: str = ""
    """What may stand behind the name, as one word: menus show it. Empty if nothing may."""
    overtakes: bool = False
    """Runs at once, even while a turn is running."""
    for_admins: bool = False


class Commands:
    """All commands by name and alias."""

    def __init__(self, commands: list[Command]) -> None:
        self.all = sorted(commands, key=lambda command: command.name)
        self._by_name = {
            spelled(name): command for command in self.all for name in (command.name, *command.aliases)
        }

    @classmethod
    def discover(cls, more: Sequence[Command] = ()) -> Commands:
        """Every file of this package, and those that plugins bring."""
        names = [found.name for found in pkgutil.iter_modules(__path__)]
        modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
        return cls([*(module.COMMAND for module in modules), *more])

    def overtakes(self, text: str) -> bool:
        command = self._by_name.get(_split(text)[0]) if is_command(text) else None
        return command is not None and command.overtakes

    async def run(self, text: str, context: CommandContext) -> str | Again:
        name, rest = _split(text)
        if command := self._by_name.get(name):
            if command.for_admins and not context.is_admin:
                return f"Only an admin may use /{name}."
            return await command.run(context, rest)
        near = difflib.get_close_matches(name, self._by_name, n=1)
        return f"There is no /{name}. " + (
            f"Did you mean /{near[0]}?" if near else "/help lists the commands."
        )


def is_command(text: str) -> bool:
    """`/word`, not a path such as `/etc/hosts` and not a lone slash."""
    name = _split(text)[0]
    return text.startswith("/") and name.replace("-", "").isalnum()


def _split(text: str) -> tuple[str, str]:
    """`/Help me` -> ("help", "me")."""
    name, *rest = re.split(r"\s+", text.removeprefix("/"), maxsplit=1)
    return spelled(name), rest[0].strip() if rest else ""


def spelled(name: str) -> str:
    """Telegram's menu knows no hyphen, so `/undo_compress` is `/undo-compress`."""
    return name.lower().replace("_", "-")
