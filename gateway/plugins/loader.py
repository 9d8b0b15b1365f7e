"""Loads the general plugins: the folders in `$HERMES_HOME/plugins/` that `plugins.enabled` lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.tool import Tool, did_you_mean, discover
from gateway.commands import Command, Commands
from gateway.config.schema import PlatformSections
from gateway.config.schema_platforms import PlatformsConfig
from gateway.errors import PluginBroken, UnknownPlugin
from gateway.plugins.context import (
    PlatformDeclaration,
    PluginContext,
    Register,
    Registrations,
    find_register,
    warn_engine_refused,
)
from gateway.plugins.hooks import Hooks
from gateway.plugins.permissions import check_permissions
from gateway.plugins.plugin_folder import (
    LOAD_SECONDS,
    MANIFEST,
    Manifest,
    PluginFault,
    folders_in,
    is_plugin_name,
    load_package,
    read_manifest,
    run_with_timeout,
)

ENGINE_FOLDER = "context_engine"
"""The folder of the context engines, beside the general plugins; not a plugin itself."""


@dataclass(frozen=True, slots=True)
class RegisteredEngine:
    """An engine registered by a general plugin. Its `register` is called again for each conversation."""

    name: str
    plugin: str
    folder: Path
    register: Register


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A general plugin as `hermes plugins` shows it. `problem` is empty if it works."""

    name: str
    description: str
    version: str
    folder: Path
    enabled: bool
    problem: str
    traceback: str


class Plugins:
    """Everything that the enabled plugins registered."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.tools: dict[str, Tool] = {}
        self.commands: list[Command] = []
        self.platforms: dict[str, PlatformDeclaration] = {}
        self.engine: RegisteredEngine | None = None
        self.notices: list[str] = []
        """Warnings for the owner, shown at the start, by `/status` and by doctor."""
        self.unusable_engine = ""
        """The `context.engine` that the built-in engine replaces; empty if it is used."""
        self.hooks = Hooks()

    @property
    def platform_sections(self) -> PlatformSections:
        """The configuration models of the platforms that plugins add, by platform."""
        return {name: spec.config for name, spec in self.platforms.items()}

    def add(self, offered: Registrations) -> None:
        """Add everything that a plugin registered, or nothing. Raises PluginFault if a name is taken."""
        self._check_names(offered)
        self.tools |= {tool.name: tool for tool in offered.tools}
        self.commands += offered.commands
        self.platforms |= {spec.name: spec for spec in offered.platforms}
        self.hooks.all += offered.hooks

    def _check_names(self, offered: Registrations) -> None:
        tools = [*self.tools, *(discover() if offered.tools else ())]
        commands = [*self.commands, *(Commands.discover().all if offered.commands else ())]
        platforms = [*PlatformsConfig.model_fields, *self.platforms]
        for what, known, names in (
            ("a tool named `{}`", tools, [tool.name for tool in offered.tools]),
            ("a command /{}", _command_names(commands), _command_names(offered.commands)),
            ("a platform named `{}`", platforms, [spec.name for spec in offered.platforms]),
        ):
            for name in names:
                if name in known:
                    raise PluginFault(f"{what.format(name)} already exists.")
                known.append(name)


def load_plugins(home: Path, enabled: Sequence[str], *, seconds: float = LOAD_SECONDS) -> Plugins:
    """Load the enabled plugins in this order. Raises PluginError at the first that cannot be used."""
    plugins = Plugins()
    for name in dict.fromkeys(enabled):
        folder = plugin_folder(home, name)
        try:
            _load(name, folder, plugins, seconds)
        except PluginFault as fault:
            raise _broken(name, folder, fault) from fault
    return plugins


def check_plugin(name: str, *, home: Path, enabled: Sequence[str]) -> None:
    """Raise UnknownPlugin or PluginBroken if Hermes could not start with this plugin and the `enabled` ones."""
    folder = plugin_folder(home, name)
    plugins, _ = survey_plugins(home, enabled)
    try:
        _load(name, folder, plugins)
    except PluginFault as fault:
        raise _broken(name, folder, fault) from fault


def survey_plugins(home: Path, enabled: Sequence[str]) -> tuple[Plugins, list[PluginInfo]]:
    """Load the enabled plugins that can be loaded, and describe all of them. Disabled plugins are not run."""
    plugins = Plugins()
    faults: dict[str, PluginFault] = {}
    for name in dict.fromkeys(enabled):
        try:
            _load(name, plugin_folder(home, name), plugins)
        except PluginFault as fault:
            faults[name] = fault
        except UnknownPlugin as error:
            faults[name] = PluginFault(error.detail)
    folders = {folder.name: folder for folder in general_folders(home)}
    folders |= {name: home / "plugins" / name for name in faults if name not in folders}
    infos = [_describe(folder, name in enabled, faults.get(name)) for name, folder in folders.items()]
    return plugins, infos


def plugin_folder(home: Path, name: str) -> Path:
    """Return the plugin's folder. Raises UnknownPlugin with the closest name."""
    folder = home / "plugins" / name
    if not is_plugin_name(name) or name == ENGINE_FOLDER or not folder.is_dir():
        known = [each.name for each in general_folders(home)]
        raise UnknownPlugin(f"There is no `{name}` in {home / 'plugins'}. {did_you_mean(name, known)}")
    return folder


def general_folders(home: Path) -> list[Path]:
    return [folder for folder in folders_in(home / "plugins") if folder.name != ENGINE_FOLDER]


def _load(name: str, folder: Path, plugins: Plugins, seconds: float = LOAD_SECONDS) -> None:
    if not (folder / MANIFEST).is_file():
        raise PluginFault(f"it has no {MANIFEST}.")
    home = folder.parents[1]
    notices = check_permissions(folder, home)
    read_manifest(folder)  # raises if the file is not valid
    register, offered = run_with_timeout(lambda: _registered(name, folder, home), folder, seconds)
    plugins.add(offered)
    plugins.names.append(name)
    plugins.notices += notices
    names = offered.engine_names
    if names and plugins.engine is None:
        plugins.engine = RegisteredEngine(names[0], name, folder, register)
        names = names[1:]
    for refused in names:
        assert plugins.engine is not None
        first = plugins.engine
        plugins.notices.append(warn_engine_refused(name, refused, first=first.name, by=first.plugin))


def _registered(name: str, folder: Path, home: Path) -> tuple[Register, Registrations]:
    register = find_register(load_package(folder))
    if register is None:
        raise PluginFault("it has no `register(ctx)`.")
    return register, PluginContext(name, folder, home).call_register(register)


def _broken(name: str, folder: Path, fault: PluginFault) -> PluginBroken:
    return PluginBroken(f"`{name}` in {folder}: {fault.reason}\n\n{fault.traceback}".rstrip())


def _describe(folder: Path, enabled: bool, fault: PluginFault | None) -> PluginInfo:
    manifest = Manifest()
    try:
        manifest = read_manifest(folder)
    except PluginFault as unreadable:
        fault = fault or unreadable
    problem, traceback = (f"broken: {fault.reason}", fault.traceback) if fault else ("", "")
    return PluginInfo(
        folder.name, manifest.description, manifest.version, folder, enabled, problem, traceback
    )


def _command_names(commands: Sequence[Command]) -> list[str]:
    return [name for command in commands for name in (command.name, *command.aliases)]
