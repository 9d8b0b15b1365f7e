"""Reloads the configuration of a running Hermes, on SIGHUP and when its file changes.

A file with a mistake changes nothing. Settings that may change while Hermes runs take effect at once; the log and
`/status` name the others until the next start.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from agent.errors import HermesError, ModelNotAvailable, UnknownTool
from agent.redaction import keeping_secret
from agent.tool import discover
from agent.toolbox import choose_tools
from gateway.config.environment import provider_keys
from gateway.config.fields import differences, in_effect
from gateway.config.loader import LoadedConfig, find_config, load
from gateway.config.schema import Config
from gateway.config.secrets import all_secrets
from gateway.config.validate import describe_type, dotted, schema_at
from gateway.config.yaml_document import KeyPath
from gateway.errors import ConfigError, UnknownEngine
from gateway.models.catalog import provider_problem
from gateway.models.selection import auxiliary_spec, configured_names, missing_key
from gateway.plugins.engines import check_engine
from gateway.plugins.loader import PluginInfo, Plugins, survey_plugins

log = structlog.get_logger(__name__)


def check_names(loaded: LoadedConfig, *, keys: bool = False, engine: bool = True) -> None:
    """Check that every model, plugin, tool and engine that the configuration names exists. Runs the code of plugins.

    Raises EngineBroken, or ConfigError with each unknown name and its line. With `keys`, also checks the API key of
    the model for summaries; without `engine`, skips the engine."""
    plugins, every = survey_plugins(loaded.home, loaded.config.plugins.enabled)
    try:
        loaded.with_platforms(plugins.platform_sections)
        platforms: Sequence[str] = ()
    except ConfigError as error:
        platforms = error.problems
    problems = [
        *_models(loaded),
        *platforms,
        *_auxiliary(loaded, keys=keys),
        *_plugins(loaded, every),
        *_tools(loaded, plugins),
        *(_engine(loaded, plugins) if engine else ()),
    ]
    if problems:
        raise ConfigError(problems=problems)


def _models(loaded: LoadedConfig) -> Iterator[str]:
    model = loaded.config.model
    try:
        configured_names(model)
    except ModelNotAvailable as error:
        yield f"{loaded.position_of('model.name')}: model: {error.detail}"
    named = [("model.name", model.name, model.base_url)]
    named += [("model.fallbacks", each.name, each.base_url or model.base_url) for each in model.fallbacks]
    for key, name, base_url in named:
        if base_url is None and (problem := provider_problem(name)):
            yield f"{loaded.position_of(key)}: {key}: {problem}"


def _plugins(loaded: LoadedConfig, every: Sequence[PluginInfo]) -> Iterator[str]:
    for plugin in every:
        if plugin.enabled and plugin.problem:
            yield f"{loaded.position_of('plugins.enabled')}: plugins.enabled: {plugin.name}: {plugin.problem}"


def _auxiliary(loaded: LoadedConfig, *, keys: bool) -> Iterator[str]:
    key = "auxiliary.compression"
    config = loaded.config.auxiliary.compression
    place = loaded.position_of(f"{key}.model" if config.model else f"{key}.provider")
    try:
        spec = auxiliary_spec(config, loaded.config.model)
    except ModelNotAvailable as error:
        yield f"{place}: {key}: {error.detail}"
        return
    if spec is None:
        return
    if spec.base_url is None and (problem := provider_problem(spec.name)):
        yield f"{place}: {key}: {problem}"
    elif keys and (variable := missing_key(spec, provider_keys())):
        yield f"{place}: {key}: {spec.name} needs {variable}, which is not set."


def _tools(loaded: LoadedConfig, plugins: Plugins) -> Iterator[str]:
    available = discover() | plugins.tools
    lists = {
        f"tools.platforms.{platform}": names for platform, names in loaded.config.tools.platforms.items()
    }
    for key, names in {"tools.enabled": loaded.config.tools.enabled, **lists}.items():
        for name in names:
            try:
                choose_tools(available, [name], {}, "")
            except UnknownTool as error:
                yield f"{loaded.position_of(key)}: {key}: {error.detail}"


def _engine(loaded: LoadedConfig, plugins: Plugins) -> Iterator[str]:
    context = loaded.config.context
    try:
        check_engine(context.engine, loaded, plugins)
    except UnknownEngine as error:
        where = loaded.position_of("context.engine")
        until = "Until then, Hermes runs with the built-in `compressor`."
        yield f"{where}: context.engine: {error.detail}\n{until}"
    except ConfigError as error:
        yield from error.problems


POLL_SECONDS = 1.0
"""A change counts once two polls have found the same files: an editor may be writing one of them."""
_MASK = "**********"

Subscriber = Callable[[Config], None]
_Fingerprint = tuple[tuple[int, int, int, int] | None, ...]


@dataclass
class CurrentConfig:
    """The configuration in effect. Read it at each use: a reload replaces `config`."""

    config: Config
    restart_required: Sequence[str] = ()
    """The keys that were changed in the file and take effect after a restart."""
    rejected: Sequence[str] = ()
    """The mistakes in the changed file, because of which none of its changes took effect."""


class LiveConfig(CurrentConfig):
    """The configuration in effect, reloaded when its files change."""

    def __init__(self, loaded: LoadedConfig) -> None:
        super().__init__(loaded.config)
        self._started = self._read = loaded
        self._subscribers: list[Subscriber] = []
        self._requested = asyncio.Event()
        self._seen = self._fingerprint()
        self._secrets: set[str] = set()
        """The secrets of every file read so far. A secret that was replaced stays redacted."""

    @property
    def loaded(self) -> LoadedConfig:
        """The configuration in effect, with the places its keys come from."""
        return replace(self._read, config=self.config)

    def subscribe(self, *subscribers: Subscriber) -> None:
        """Call each subscriber with every new configuration."""
        self._subscribers += subscribers

    def request_reload(self) -> None:
        """Read the files again, even if they have not changed."""
        self._requested.set()

    async def watch(self) -> None:
        """Poll the files and reload them when they change, until cancelled."""
        with ExitStack() as secrets:
            before = self._seen
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._requested.wait()
                now = await asyncio.to_thread(self._fingerprint)
                if self._requested.is_set() or (now == before and now != self._seen):
                    was_requested, self._seen = self._requested.is_set(), now
                    self._requested.clear()
                    await self._reload(secrets, was_requested=was_requested)
                before = now

    async def _reload(self, secrets: ExitStack, *, was_requested: bool) -> None:
        try:
            loaded = await asyncio.to_thread(self._load)
            known = await asyncio.to_thread(all_secrets, loaded)
        except HermesError as error:
            problems = error.problems if isinstance(error, ConfigError) else [str(error)]
            self.rejected = problems
            log.error("config.rejected", problems=problems, hint="the settings in effect stay as they are")
            return
        if new := set(known) - self._secrets:
            secrets.enter_context(keeping_secret(new))
            self._secrets |= new
        self._read, self.rejected = loaded, ()
        config = in_effect(self._started.config, loaded.config)
        applied = list(differences(self.config, config))
        waiting = [dotted(place) for place in differences(config, loaded.config)]
        self.config = config
        is_news = waiting != list(self.restart_required)
        self.restart_required = waiting
        if applied:
            for subscriber in self._subscribers:
                subscriber(config)
            changed = {dotted(place): _shown(config, place) for place in applied}
            log.info("config.reloaded", file=_file(loaded), changed=changed)
        if waiting and (is_news or was_requested):
            log.warning("config.restart_required", file=_file(loaded), keys=waiting)
        elif was_requested and not applied:
            log.info("config.unchanged", file=_file(loaded))

    def _load(self) -> LoadedConfig:
        started = self._started
        loaded = load(started.path, sections=started.sections)
        if loaded.config.plugins == started.config.plugins:
            loaded = loaded.with_platforms(started.sections)
        if _names(loaded) != _names(self._read):
            # Only for changed names, because the check runs the code of plugins again, beside the loaded plugins.
            # An engine that failed at the start was replaced; it does not prevent other changes.
            check_names(loaded, engine=loaded.config.context != self._read.config.context)
        return loaded

    def _fingerprint(self) -> _Fingerprint:
        """Stat the configuration files. A replaced file has another inode, even if all else is the same."""
        home = self._started.home
        with suppress(HermesError):
            return tuple(map(_stat, (self._started.path or find_config(None, home), home / ".env")))
        return ()


def on_hangup(settings: LiveConfig, stop: Callable[[], None]) -> None:
    """Reload the configuration on SIGHUP.

    A closing terminal sends SIGHUP as well: a process that was started there without `nohup` stops.
    """
    stops_with_terminal = has_terminal() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    terminal_streams = [stream for stream in range(3) if os.isatty(stream)]

    def hung_up() -> None:
        if stops_with_terminal and not has_terminal():
            # Writing to a closed terminal fails.
            null = os.open(os.devnull, os.O_RDWR)
            for stream in terminal_streams:
                os.dup2(null, stream)
            stop()
        else:
            settings.request_reload()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hung_up)


def has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _stat(path: Path | None) -> tuple[int, int, int, int] | None:
    try:
        found = path and path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size) if found else None


def _names(loaded: LoadedConfig) -> tuple[object, ...]:
    config = loaded.config
    return config.tools.enabled, config.tools.platforms, config.plugins, config.context


def _file(loaded: LoadedConfig) -> str:
    return str(loaded.path or "the defaults")


def _shown(config: Config, place: KeyPath) -> Any:
    """Return the value for the log. Free text may hold anything, so it is masked."""
    if describe_type(schema_at(place, type(config))) == "text":
        return _MASK
    value: Any = config.model_dump(mode="json")
    for step in place:
        value = value[step]
    return value
