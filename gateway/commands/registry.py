"""The registry of slash commands: discovers them, and runs one by its name."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent.loop import Agent
from agent.messages import ChatDict
from agent.store import Conversation, SessionStore
from gateway.limits import DailyBudget
from gateway.types import CommandCall, command_name


@dataclass(frozen=True, slots=True)
class CommandContext:
    """Everything that a command may use."""

    conversation: Conversation
    store: SessionStore
    agent: Agent
    commands: Commands
    stop_turn: Callable[[str], bool]
    author: str
    """Who gave the command: `telegram:4711`, or the owner."""
    is_admin: bool
    """The owner at this machine always is."""
    budget: DailyBudget
    group: str = ""
    """The group as `allowed_groups` names it. Empty in a direct chat."""
    restart_required: Sequence[str] = ()
    """The settings that were changed and take effect after a restart."""
    rejected: Sequence[str] = ()
    """The mistakes in the changed `hermes.yaml`, because of which none of its changes took effect."""
    notices: Sequence[str] = ()
    """Warnings for the owner about plugins and the context engine."""
    unusable_engine: str = ""
    """The configured `context.engine`, if the built-in engine replaces it."""


@dataclass(frozen=True, slots=True)
class Again:
    """A command's answer that begins a turn: the message goes to the model as if the person had just written it."""

    notice: str
    text: str
    parts: tuple[ChatDict, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    summary: str
    run: Callable[[CommandContext, str], Awaitable[str | Again]]
    """Gets the text after the name and returns the answer."""
    aliases: tuple[str, ...] = ()
    argument: str = ""
    """The argument's name, one word for the menus. Empty if the command takes none."""
    overtakes: bool = False
    """Runs at once, even while a turn is running."""
    for_admins: bool = False


class Commands:
    """All commands by name and alias."""

    def __init__(self, commands: list[Command], hyphens: Mapping[str, str] | None = None) -> None:
        self._hyphens = hyphens or {}
        self.all = sorted(commands, key=lambda command: command.name)
        self._by_name = {
            command_name(name): command for command in self.all for name in (command.name, *command.aliases)
        }

    @classmethod
    def discover(cls, more: Sequence[Command] = (), *, hyphens: Mapping[str, str] | None = None) -> Commands:
        """Import every command file of this package; `more` are the commands of plugins.

        `hyphens` maps platforms to the character that they show instead of the hyphen in a command's name.
        """
        package, this = __name__.rsplit(".", 1)
        names = [found.name for found in pkgutil.iter_modules([str(Path(__file__).parent)])]
        modules = [importlib.import_module(f"{package}.{name}") for name in names if name != this]
        return cls([*(module.COMMAND for module in modules), *more], hyphens)

    @property
    def menu(self) -> list[Command]:
        """The commands with an entry for each alias: the menus of Telegram and Discord show one name per entry."""
        aliases = [
            replace(command, name=alias, aliases=(), summary=f"the same as /{command.name}")
            for command in self.all
            for alias in command.aliases
        ]
        return sorted([*self.all, *aliases], key=lambda command: command.name)

    def hyphen_on(self, platform: str) -> str:
        """Return the hyphen of commands on `telegram`, which is also the one on `telegram/work`."""
        return self._hyphens.get(platform.partition("/")[0], "-")

    def overtakes(self, call: CommandCall | None) -> bool:
        """Whether the command runs at once, even while a turn is running."""
        command = self._by_name.get(call.name) if call else None
        return command is not None and command.overtakes

    async def run(self, call: CommandCall, context: CommandContext) -> str | Again:
        if command := self._by_name.get(call.name):
            if command.for_admins and not context.is_admin:
                return f"Only an admin may use /{call.name}."
            return await command.run(context, call.argument)
        near = difflib.get_close_matches(call.name, self._by_name, n=1)
        return f"There is no /{call.name}. " + (
            f"Did you mean /{near[0]}?" if near else "/help lists the commands."
        )
