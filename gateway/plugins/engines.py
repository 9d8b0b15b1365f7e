"""Finds the context engine that `context.engine` names, and falls back to the built-in one.

Search order: `plugins/context_engine/<name>/` in the project, the same folder in the state directory, an engine that a
general plugin registered. `compressor` is always the built-in engine. It also replaces an engine that is missing or
broken; the start, `/status` and `hermes doctor` say so.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import structlog

import gateway
from agent.context.engine_runner import DEADLINES
from agent.context_engine import ContextEngine
from agent.tool import did_you_mean
from gateway.config.loader import LoadedConfig
from gateway.errors import ConfigError, EngineBroken, UnknownEngine
from gateway.plugins.context import warn_engine_refused
from gateway.plugins.engine_loading import (
    EngineCode,
    EngineEnvironment,
    OptionsRejected,
    load_engine_folder,
    load_registered_engine,
)
from gateway.plugins.loader import ENGINE_FOLDER, Plugins, general_folders
from gateway.plugins.permissions import check_permissions
from gateway.plugins.plugin_folder import (
    LOAD_SECONDS,
    Manifest,
    PluginFault,
    folders_in,
    read_manifest,
    run_with_timeout,
)

log = structlog.get_logger(__name__)

BUILT_IN = "compressor"
_BUILT_IN_DESCRIPTION = "Summarises old turns and keeps a ledger of what must not be paraphrased."

_PROBE_WINDOW = 200_000
"""Tokens. The window of an engine that is created only to test it."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """An engine as `hermes plugins` shows it. `problem` is empty if it works."""

    name: str
    description: str
    version: str
    origin: str
    """`built-in`, `project`, `home`, or `plugin <name>`."""
    folder: Path | None
    active: bool
    problem: str = ""
    traceback: str = ""


def engine_or_built_in(
    name: str, *, home: Path, plugins: Plugins, compressor: Callable[[], ContextEngine], **how: Any
) -> Callable[[], ContextEngine]:
    """Return the engine factory, or the built-in one if the engine cannot be used; `plugins` records that.

    Raises ConfigError if only the options are wrong.
    """
    plugins.notices += hidden_engines(home, plugins)
    try:
        return engine_factory(name, home=home, plugins=plugins, compressor=compressor, **how)
    except (UnknownEngine, EngineBroken) as error:
        # Without the searched folders and the traceback.
        reason = error.detail.partition("\n")[0]
        log.error("engine.fallback", wanted=name, used=BUILT_IN, problem=reason)
        plugins.unusable_engine = name
        plugins.notices.append(f"{fallback_sentence(name, reason)} `hermes doctor` says more")
        return compressor


def fallback_sentence(name: str, reason: str) -> str:
    return (
        f"the context engine `{name}` cannot be used, and the built-in `{BUILT_IN}` is used instead: {reason}"
    )


def hidden_engines(home: Path, plugins: Plugins) -> list[str]:
    """Return a sentence for each engine that is hidden by another engine of the same name."""
    first: dict[str, Path | None] = {BUILT_IN: None}
    sentences = []
    for source in _sources(home, plugins):
        if source.name in first:
            before = first[source.name] or "Hermes itself"
            sentences.append(
                f"the context engine `{source.name}` in {source.folder} is hidden by the one in {before}"
            )
            log.warning(
                "plugin.engine_hidden", engine=source.name, folder=str(source.folder), used=str(before)
            )
        first.setdefault(source.name, source.folder)
    return sentences


def engine_factory(
    name: str,
    *,
    home: Path,
    plugins: Plugins,
    compressor: Callable[[], ContextEngine],
    context_length: int,
    model: str = "",
    options: Mapping[str, Any] | None = None,
    options_position: str = "",
    seconds: float = LOAD_SECONDS,
) -> Callable[[], ContextEngine]:
    """Return a factory that creates one engine per conversation. Raises UnknownEngine or EngineBroken; ConfigError if
    the engine rejects the `options`, which are at `options_position` in the configuration.

    Creates one engine at once, so that errors show at the start and not at the first message. Adds the tools, commands
    and hooks that an engine's folder registers to `plugins`, once.
    """
    environment = EngineEnvironment(context_length, model, home, options or {})
    return _tested_factory(name, plugins, environment, options_position, seconds) or compressor


def check_engine(name: str, loaded: LoadedConfig, plugins: Plugins) -> None:
    """Raise what `engine_factory` would raise with this configuration. Add notices to `plugins`."""
    environment = _probe(loaded.home, loaded.config.context.options)
    _tested_factory(name, plugins, environment, loaded.position_of("context.options"))


def _tested_factory(
    name: str,
    plugins: Plugins,
    environment: EngineEnvironment,
    options_position: str,
    seconds: float = LOAD_SECONDS,
) -> Callable[[], ContextEngine] | None:
    """Load an engine, create one to test it, and return its factory; None for the built-in engine."""
    if name == BUILT_IN:
        if environment.options:
            raise _misconfigured(OptionsRejected.none_accepted(BUILT_IN), options_position)
        return None
    source = _find(name, environment.home, plugins)
    try:
        code = source.load_and_test(environment, seconds)
        plugins.add(code.registrations)
    except PluginFault as fault:
        raise _broken(source, environment.home, fault, options_position) from fault
    plugins.notices += code.notices
    for refused in code.registrations.engine_names[1:]:
        plugins.notices.append(warn_engine_refused(name, refused, first=name, by=name))

    def make() -> ContextEngine:
        try:
            return code.make()
        except PluginFault as fault:
            raise _broken(source, environment.home, fault, options_position) from fault

    return make


def engine_problem(
    name: str,
    *,
    home: Path,
    plugins: Plugins,
    options: Mapping[str, Any] | None = None,
    seconds: float = DEADLINES["problem"],
) -> str:
    """Return why an engine that can be loaded cannot work now, in the engine's words; empty if it can work."""
    if name == BUILT_IN:
        return ""
    try:
        source = _find(name, home, plugins)
        folder, environment = source.folder, _probe(home, options)
        engine = run_with_timeout(lambda: source.load(environment).make(), folder, LOAD_SECONDS)
        return run_with_timeout(
            lambda: str(engine.problem() or ""), folder, seconds, what="problem() did not return"
        )
    except UnknownEngine as error:
        return error.detail.partition("\n")[0]
    except PluginFault as fault:
        return f"it cannot say whether it works: {fault.reason}"


def available_engines(
    home: Path,
    plugins: Plugins,
    *,
    active: str,
    options: Mapping[str, Any] | None = None,
    test: bool = True,
) -> list[EngineInfo]:
    """Return all engines. With `test`, run the code of each to find problems; `options` are for the active one."""
    built_in = EngineInfo(BUILT_IN, _BUILT_IN_DESCRIPTION, "", "built-in", None, active == BUILT_IN)
    if test and built_in.active and options:
        built_in = replace(built_in, problem=f"refused: {OptionsRejected.none_accepted(BUILT_IN)}")
    every = [built_in]
    for source in _sources(home, plugins):
        is_wanted = source.name == active
        hidden_by = next((known for known in every if known.name == source.name), None)
        probe = _probe(home, options if is_wanted else None) if test else None
        info = _describe(source, probe, hidden_by=hidden_by)
        every.append(replace(info, active=is_wanted and hidden_by is None))
    return every


def engine_folders(home: Path) -> list[Path]:
    """Return the folders in which engines are searched, in order."""
    return [*project_engine_folders(), _home_folder(home)]


def project_engine_folders() -> list[Path]:
    """Return the engine folder beside our packages, then those that other wheels add to the `plugins` namespace.

    Skips the current directory, which `python -m` puts on the path: it may be another person's. An empty or relative
    entry of `PYTHONPATH` puts it there, too; Python itself then imports modules from it, and doctor warns about that.
    """
    ours = Path(gateway.__path__[0]).parent / "plugins"
    spec = importlib.util.find_spec("plugins")
    others = map(Path, (spec.submodule_search_locations or ()) if spec else ())
    installed = [folder for folder in others if not _is_here(folder.parent)]
    return list(dict.fromkeys(folder / ENGINE_FOLDER for folder in (ours, *installed)))


def _is_here(folder: Path) -> bool:
    try:
        return folder.samefile(Path.cwd())
    except OSError:
        return False


def _home_folder(home: Path) -> Path:
    return home / "plugins" / ENGINE_FOLDER


@dataclass(frozen=True, slots=True)
class _EngineSource:
    """The folder of an engine and the function that loads it."""

    name: str
    origin: str
    folder: Path
    load: Callable[[EngineEnvironment], EngineCode]

    def load_and_test(self, environment: EngineEnvironment, seconds: float = LOAD_SECONDS) -> EngineCode:
        """Load the code and create one engine to test it."""

        def run() -> EngineCode:
            code = self.load(environment)
            code.make()
            return code

        return run_with_timeout(run, self.folder, seconds)


def _sources(home: Path, plugins: Plugins) -> Iterator[_EngineSource]:
    """Yield all engines in the order of precedence."""
    for parent in engine_folders(home):
        is_home = parent == _home_folder(home)
        for folder in folders_in(parent):
            load = partial(_engine_in, folder, home if is_home else None)
            yield _EngineSource(folder.name, "home" if is_home else "project", folder, load)
    if offered := plugins.engine:
        load = partial(load_registered_engine, offered.name, offered.folder, offered.register)
        yield _EngineSource(offered.name, f"plugin {offered.plugin}", offered.folder, load)


def _engine_in(folder: Path, home: Path | None, environment: EngineEnvironment) -> EngineCode:
    notices = check_permissions(folder, home) if home is not None else []
    return replace(load_engine_folder(folder.name, folder, environment), notices=notices)


def _find(name: str, home: Path, plugins: Plugins) -> _EngineSource:
    sources = list(_sources(home, plugins))
    for source in sources:
        if source.name == name:
            return source
    known = {BUILT_IN, *(source.name for source in sources)}
    idle = [folder.name for folder in general_folders(home) if folder.name not in plugins.names]
    not_enabled = f" Not enabled: {', '.join(idle)}." if idle else ""
    raise UnknownEngine(
        f"There is no engine `{name}`. {did_you_mean(name, known)}\n{_searched(home)}.{not_enabled}"
    )


def _describe(
    source: _EngineSource, probe: EngineEnvironment | None, *, hidden_by: EngineInfo | None
) -> EngineInfo:
    manifest, problem, traceback = Manifest(), "", ""
    try:
        manifest = read_manifest(source.folder)
        if hidden_by is None and probe is not None:
            source.load_and_test(probe)
        elif hidden_by is not None:
            problem = f"hidden: the one in {hidden_by.folder or 'Hermes itself'} comes first."
    except OptionsRejected as refused:
        problem = f"refused: {refused.reason}"
    except PluginFault as fault:
        problem, traceback = f"broken: {fault.reason}", fault.traceback
    about = manifest.description, manifest.version
    return EngineInfo(source.name, *about, source.origin, source.folder, False, problem, traceback)


def _misconfigured(refused: OptionsRejected, options_position: str) -> ConfigError:
    return ConfigError(f"{options_position}: {refused.reason}" if options_position else refused.reason)


def _broken(
    source: _EngineSource, home: Path, fault: PluginFault, options_position: str
) -> EngineBroken | ConfigError:
    if isinstance(fault, OptionsRejected):
        return _misconfigured(fault, options_position)
    what = f"`{source.name}` in {source.folder}: {fault.reason}"
    return EngineBroken(f"{what}\n{_searched(home)}.\n\n{fault.traceback}".rstrip())


def _searched(home: Path) -> str:
    folders = "".join(f"\n  {folder}" for folder in engine_folders(home))
    return f"Searched, in this order:{folders}\n  the enabled plugins in {home / 'plugins'}"


def _probe(home: Path, options: Mapping[str, Any] | None) -> EngineEnvironment:
    return EngineEnvironment(_PROBE_WINDOW, "", home, options or {})
