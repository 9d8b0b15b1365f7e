"""The context that a plugin's `register(ctx)` gets, and the registrations it collects."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Protocol, runtime_checkable

import structlog

from agent.aio import run_in_daemon_thread
from agent.context_engine import ContextEngine
from agent.tool import Tool, did_you_mean
from gateway.commands import Command, CommandContext
from gateway.config.fields import Section
from gateway.config.schema_platforms import BotConfig, is_platform_name
from gateway.errors import CommandFailed
from gateway.plugins.hooks import EVENTS, Callback, Event, Hook
from gateway.plugins.plugin_folder import PluginFault, await_plugin_code, run_plugin_code
from gateway.types import parse_command

log = structlog.get_logger(__name__)

Register = Callable[["PluginContext"], object]

Handler = Callable[[str], Awaitable[object] | object]
"""A slash command as in other hosts: takes the text behind the name and returns the answer."""

_HANDLER_SECONDS = 60.0
_ONE_WORD = re.compile(r"\W*(\w+)\W*")


@runtime_checkable
class PlatformDeclaration(Protocol):
    """A `gateway.platforms.base.PlatformSpec`, as far as plugins and the configuration read it."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def config(self) -> type[Section]: ...


@dataclass(slots=True)
class Registrations:
    """Everything that one call of `register(ctx)` registered."""

    engine: ContextEngine | None = None
    engine_names: list[str] = field(default_factory=list)
    """Names of all registered engines. The first one is used, the others are refused."""
    tools: list[Tool] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)
    platforms: list[PlatformDeclaration] = field(default_factory=list)


class PluginContext:
    """The API for plugins. A mistake raises an error at the plugin's own line."""

    def __init__(self, plugin: str, folder: Path, hermes_home: Path) -> None:
        self.name = plugin
        self.hermes_home = hermes_home
        """The state directory, in which a plugin may keep files."""
        self._folder = folder
        self._registrations = Registrations()

    def register_context_engine(self, engine: ContextEngine) -> None:
        """Register a context engine, which `context.engine` selects by its name. Only the first one counts."""
        if not isinstance(engine, ContextEngine):
            hint = (
                "an instance, not the class" if isinstance(engine, type) else "an instance of ContextEngine"
            )
            raise TypeError(f"register_context_engine() takes {hint}; this is {engine!r}.")
        self._registrations.engine_names.append(engine.name)
        self._registrations.engine = self._registrations.engine or engine

    def register_tool(self, tool: Tool) -> None:
        """Register a tool for the model: a function with the decorator `agent.tool.tool`."""
        if not isinstance(tool, Tool):
            raise TypeError(f"register_tool() takes what `@tool()` of agent.tool makes; this is {tool!r}.")
        # Hermes does not know where the tool's results come from, so they count as outside text.
        self._registrations.tools.append(replace(tool, outside=True))

    def register_command(
        self,
        command: Command | str,
        handler: Handler | None = None,
        description: str = "",
        args_hint: str = "",
    ) -> None:
        """Register a slash command: a `Command`, or a name and a function of the text behind it."""
        if isinstance(command, str):
            command = self._command_from_handler(command, handler, description, args_hint)
        if not isinstance(command, Command):
            raise TypeError(
                "register_command() takes a gateway.commands.Command, or a name and a function; "
                f"this is {command!r}."
            )
        for name in (command.name, *command.aliases):
            if name != name.lower() or parse_command(f"/{name}") is None:
                raise ValueError(f"The command {name!r} cannot be typed: use lower case, digits, - and _.")
        self._registrations.commands.append(command)

    def _command_from_handler(
        self, name: str, handler: Handler | None, description: str, args_hint: str
    ) -> Command:
        if not callable(handler):
            raise TypeError(f"register_command() takes a function behind the name; this is {handler!r}.")
        name = name.strip().removeprefix("/").lower()
        summary = " ".join(description.split()) or f"a command of the plugin {self.name}"
        one_word = _ONE_WORD.fullmatch(args_hint)
        argument = one_word[1] if one_word else "arguments" if args_hint else ""

        async def run(context: CommandContext, rest: str) -> str:
            return await self._answer(name, handler, rest)

        return Command(name, summary, run, argument=argument)

    async def _answer(self, name: str, handler: Handler, rest: str) -> str:
        """Call the plugin's function: an async one on the event loop, any other in a thread. Neither may hang."""
        where = f"/{name} of the plugin {self.name}"

        async def call() -> str:
            if inspect.iscoroutinefunction(handler):
                answer = await handler(rest)
            else:
                answer = await run_in_daemon_thread(
                    lambda: run_plugin_code(lambda: handler(rest), self._folder), where
                )
                answer = await answer if inspect.isawaitable(answer) else answer
            return "Done." if answer is None else str(answer)

        try:
            async with asyncio.timeout(_HANDLER_SECONDS):
                return await await_plugin_code(call(), self._folder)
        except TimeoutError as error:
            raise CommandFailed(f"{where}: no answer within {_HANDLER_SECONDS:.0f} s.") from error
        except PluginFault as fault:
            raise CommandFailed(f"{where}: {fault.reason}.") from fault

    def register_hook(self, event: Event, callback: Callback) -> None:
        """Register a function or async function that is called at an event."""
        if event not in EVENTS:
            raise ValueError(f"There is no event `{event}`. {did_you_mean(str(event), EVENTS)}")
        if not callable(callback):
            raise TypeError(f"register_hook() takes a function; this is {callback!r}.")
        self._registrations.hooks.append(Hook(self.name, self._folder, event, callback))

    def register_platform(self, spec: PlatformDeclaration) -> None:
        """Add a chat platform: a `gateway.platforms.base.PlatformSpec`. Its settings are in `platforms.<name>`."""
        if not isinstance(spec, PlatformDeclaration) or not callable(getattr(spec, "build", None)):
            raise TypeError(
                f"register_platform() takes a gateway.platforms.base.PlatformSpec; this is {spec!r}."
            )
        if not is_platform_name(spec.name):
            raise ValueError(f"A platform cannot be named {spec.name!r}: use lower case, digits and _.")
        if not (isinstance(spec.config, type) and issubclass(spec.config, BotConfig)):
            raise TypeError(
                "The `config` of a platform must extend gateway.config.schema_platforms.BotConfig; "
                f"this is {spec.config!r}."
            )
        if not spec.config.token_variable:
            raise ValueError(f"{spec.config.__name__}.token_variable must name the variable of the token.")
        self._registrations.platforms.append(spec)

    def call_register(self, register: Register) -> Registrations:
        """Call `register` with this context and return the registrations. Raises PluginFault."""
        run_plugin_code(lambda: register(self), self._folder)
        return self._registrations


def find_register(module: ModuleType) -> Register | None:
    """Return the package's `register` function, if it has one."""
    register = getattr(module, "register", None)
    if register is None:
        return None
    if not callable(register) or inspect.iscoroutinefunction(register):
        raise PluginFault("`register` must be an ordinary function: `def register(ctx): ...`.")
    found: Register = register
    return found


def warn_engine_refused(plugin: str, engine: str, *, first: str, by: str) -> str:
    """Log that an engine is refused because the plugin `by` registered `first` before it. Return the sentence."""
    log.warning("plugin.engine_refused", plugin=plugin, engine=engine, registered_before=first)
    return (
        f"the plugin {plugin} registers the context engine `{engine}`, which is refused: only one can be registered, "
        f"and the plugin {by} came first with `{first}`"
    )
