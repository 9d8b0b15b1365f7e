"""What a plugin's `register(ctx)` gets, and what it leaves there."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

import structlog

from agent.context_engine import ContextEngine
from agent.tool import Tool, did_you_mean
from gateway.commands import Command, is_command
from gateway.plugins.hooks import EVENTS, Callback, Event, Hook
from gateway.plugins.package import PluginFault, run_foreign

log = structlog.get_logger(__name__)

Register = Callable[["PluginContext"], object]


@dataclass(slots=True)
class Registrations:
    """All that one call of `register(ctx)` has offered."""

    engine: ContextEngine | None = None
    engine_names: list[str] = field(default_factory=list)
    """Of every engine that was registered. The first counts, the others are refused."""
    tools: list[Tool] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)


class PluginContext:
    """The door between a plugin and Hermes. A mistake is raised at the line of the plugin that makes it."""

    def __init__(self, plugin: str, folder: Path, hermes_home: Path) -> None:
        self.name = plugin
        self.hermes_home = hermes_home
        """The state directory, where a plugin may keep files of its own."""
        self._folder = folder
        self._offered = Registrations()

    def register_context_engine(self, engine: ContextEngine) -> None:
        """Offers an engine; `context.engine` selects it by its name. The first one counts."""
        if not isinstance(engine, ContextEngine):
            hint = (
                "an instance, not the class" if isinstance(engine, type) else "an instance of ContextEngine"
            )
            raise TypeError(f"register_context_engine() takes {hint}; this is {engine!r}.")
        self._offered.engine_names.append(engine.name)
        self._offered.engine = self._offered.engine or engine

    def register_tool(self, tool: Tool) -> None:
        """Offers the model a tool: a function with the decorator `agent.tool.tool`."""
        if not isinstance(tool, Tool):
            raise TypeError(f"register_tool() takes what `@tool()` of agent.tool makes; this is {tool!r}.")
        # Whatever it brings, Hermes knows nothing about where it has it from.
        self._offered.tools.append(replace(tool, outside=True))

    def register_command(self, command: Command) -> None:
        """Adds a slash command to every chat."""
        if not isinstance(command, Command):
            raise TypeError(f"register_command() takes a gateway.commands.Command; this is {command!r}.")
        for name in (command.name, *command.aliases):
            if name != name.lower() or not is_command(f"/{name}"):
                raise ValueError(f"Nobody can type the command {name!r}: use lower case, digits, - and _.")
        self._offered.commands.append(command)

    def register_hook(self, event: Event, callback: Callback) -> None:
        """Has a function, or an async function, called when this happens."""
        if event not in EVENTS:
            raise ValueError(f"There is no event `{event}`. {did_you_mean(str(event), EVENTS)}")
        if not callable(callback):
            raise TypeError(f"register_hook() takes a function; this is {callback!r}.")
        self._offered.hooks.append(Hook(self.name, self._folder, event, callback))

    def offered_by(self, register: Register) -> Registrations:
        """Calls `register` with this context. Raises PluginFault."""
        run_foreign(lambda: register(self), self._folder)
        return self._offered


def register_of(module: ModuleType) -> Register | None:
    """The package's `register`, if it has one."""
    register = getattr(module, "register", None)
    if register is None:
        return None
    if not callable(register) or inspect.iscoroutinefunction(register):
        raise PluginFault("`register` must be an ordinary function: `def register(ctx): ...`.")
    found: Register = register
    return found


def warn_of_refused(plugin: str, engine: str, *, first: str) -> None:
    """Only one engine can be registered; who came first keeps its place."""
    log.warning("plugin.engine_refused", plugin=plugin, engine=engine, registered_before=first)
