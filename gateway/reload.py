"""The settings a running Hermes goes by: read again on SIGHUP and when the file changes.

A file that cannot be used changes nothing. Of one that can, those who follow get what may change while Hermes runs;
the rest is named in the log and by `/status` until the next start.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from agent.errors import HermesError, ModelNotAvailable, UnknownTool
from agent.redaction import keeping_secret
from agent.tool import discover
from agent.toolbox import choose_tools
from gateway.config.loader import Loaded, find, load, provider_keys
from gateway.config.reload_policy import differences, in_effect
from gateway.config.schema import Config
from gateway.config.secrets import secrets_of
from gateway.config.validate import dotted, expected, schema_at
from gateway.config.yaml_document import KeyPath
from gateway.errors import ConfigError, UnknownEngine
from gateway.models.catalog import provider_problem
from gateway.models.selection import auxiliary_spec, configured_names, missing_key
from gateway.plugins import PluginInfo, Plugins, check_engine, survey_plugins


def check_names(loaded: Loaded, *, keys: bool = False, engine: bool = True) -> None:
    """Raises EngineBroken, or ConfigError with every name that does not exist and its line. The code of plugins is run
    for that. With `keys`, a missing key of the model for summaries counts, too; without `engine`, the engine is not
    checked."""
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


def _models(loaded: Loaded) -> Iterator[str]:
    model = loaded.config.model
    try:
        configured_names(model)
    except ModelNotAvailable as error:
        yield f"{loaded.place_of('model.name')}: model: {error.detail}"
    named = [("model.name", model.name, model.base_url)]
    named += [("model.fallbacks", each.name, each.base_url or model.base_url) for each in model.fallbacks]
    for key, name, base_url in named:
        if base_url is None and (problem := provider_problem(name)):
            yield f"{loaded.place_of(key)}: {key}: {problem}"


def _plugins(loaded: Loaded, every: Sequence[PluginInfo]) -> Iterator[str]:
    for plugin in every:
        if plugin.enabled and plugin.problem:
            yield f"{loaded.place_of('plugins.enabled')}: plugins.enabled: {plugin.name}: {plugin.problem}"


def _auxiliary(loaded: Loaded, *, keys: bool) -> Iterator[str]:
    key = "auxiliary.compression"
    config = loaded.config.auxiliary.compression
    place = loaded.place_of(f"{key}.model" if config.model else f"{key}.provider")
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


def _tools(loaded: Loaded, plugins: Plugins) -> Iterator[str]:
    available = discover() | plugins.tools
    lists = {
        f"tools.platforms.{platform}": names for platform, names in loaded.config.tools.platforms.items()
    }
    for key, names in {"tools.enabled": loaded.config.tools.enabled, **lists}.items():
        for name in names:
            try:
                choose_tools(available, [name], {}, "")
            except UnknownTool as error:
                yield f"{loaded.place_of(key)}: {key}: {error.detail}"


def _engine(loaded: Loaded, plugins: Plugins) -> Iterator[str]:
    context = loaded.config.context
    try:
        check_engine(
            context.engine,
            home=loaded.home,
            plugins=plugins,
            options=context.options,
            options_at=loaded.place_of("context.options"),
        )
    except UnknownEngine as error:
        where = loaded.place_of("context.engine")
        until = "Until that is mended, Hermes runs with the built-in `compressor`."
        yield f"{where}: context.engine: {error.detail}\n{until}"
    except ConfigError as error:
        yield from error.problems


log = structlog.get_logger(__name__)

POLL_SECONDS = 1.0
"""A change counts once the file has looked the same twice: an editor may be in the middle of writing it."""
_MASK = "**********"

Follower = Callable[[Config], None]
_Look = tuple[tuple[int, int, int, int] | None, ...]


class LiveConfig:
    """The configuration in effect, and those who go by it."""

    def __init__(self, loaded: Loaded) -> None:
        self.config = loaded.config
        self.needs_restart: Sequence[str] = ()
        """The keys that the file has other values for, which count from the next start on."""
        self.refused: Sequence[str] = ()
        """What is wrong with the file as it is now, which is why it changed nothing."""
        self._started = self._read = loaded
        self._followers: list[Follower] = []
        self._asked = asyncio.Event()
        self._seen = self._look()
        self._secrets: set[str] = set()
        """That came with a changed file. One that is replaced stays secret."""

    @property
    def loaded(self) -> Loaded:
        """The configuration in effect, with the places its keys come from."""
        return replace(self._read, config=self.config)

    def followed_by(self, *followers: Follower) -> None:
        """Each is called with every new configuration, and takes over what it needs at once."""
        self._followers += followers

    def ask(self) -> None:
        """Reads the file again, whether it has changed or not."""
        self._asked.set()

    async def watch(self) -> None:
        """Until it is cancelled."""
        with ExitStack() as secrets:
            before = self._seen
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._asked.wait()
                now = await asyncio.to_thread(self._look)
                if self._asked.is_set() or (now == before and now != self._seen):
                    was_asked, self._seen = self._asked.is_set(), now
                    self._asked.clear()
                    await self._reload(secrets, was_asked=was_asked)
                before = now

    async def _reload(self, secrets: ExitStack, *, was_asked: bool) -> None:
        try:
            loaded = await asyncio.to_thread(self._load)
            known = await asyncio.to_thread(secrets_of, loaded)
        except HermesError as error:
            problems = error.problems if isinstance(error, ConfigError) else [str(error)]
            self.refused = problems
            log.error("config.refused", problems=problems, hint="the settings in effect stay as they are")
            return
        if new := set(known) - self._secrets:
            secrets.enter_context(keeping_secret(new))
            self._secrets |= new
        self._read, self.refused = loaded, ()
        config = in_effect(self._started.config, loaded.config)
        applied = list(differences(self.config, config))
        waiting = [dotted(place) for place in differences(config, loaded.config)]
        self.config = config
        is_news = waiting != list(self.needs_restart)
        self.needs_restart = waiting
        if applied:
            for follower in self._followers:
                follower(config)
            changed = {dotted(place): _shown(config, place) for place in applied}
            log.info("config.reloaded", file=_file(loaded), changed=changed)
        if waiting and (is_news or was_asked):
            log.warning("config.needs_restart", file=_file(loaded), keys=waiting)
        elif was_asked and not applied:
            log.info("config.unchanged", file=_file(loaded))

    def _load(self) -> Loaded:
        started = self._started
        loaded = load(started.path, sections=started.sections)
        if loaded.config.plugins == started.config.plugins:
            loaded = loaded.with_platforms(started.sections)
        if _names(loaded) != _names(self._read):
            # Only then: this runs the code of plugins once more, beside those that are at work.
            # An engine that could not be used at the start has been replaced. It keeps nothing else from changing.
            check_names(loaded, engine=loaded.config.context != self._read.config.context)
        return loaded

    def _look(self) -> _Look:
        """How the files look from outside. One that was replaced has another number, even if all else is the same."""
        home = self._started.home
        with suppress(HermesError):
            return tuple(map(_looks, (self._started.path or find(None, home), home / ".env")))
        return ()


def on_hangup(settings: LiveConfig, stop: Callable[[], None]) -> None:
    """SIGHUP means: read the settings again. It also comes when a terminal is closed, and who was started there and
    not with `nohup` is meant to end with it."""
    ends_with_terminal = has_terminal() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    shown_there = [stream for stream in range(3) if os.isatty(stream)]

    def hung_up() -> None:
        if ends_with_terminal and not has_terminal():
            # Whatever is written to a terminal that is gone would fail.
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in shown_there:
                os.dup2(nowhere, stream)
            stop()
        else:
            settings.ask()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hung_up)


def has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _looks(path: Path | None) -> tuple[int, int, int, int] | None:
    try:
        found = path and path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size) if found else None


def _names(loaded: Loaded) -> tuple[object, ...]:
    config = loaded.config
    return config.tools.enabled, config.tools.platforms, config.plugins, config.context


def _file(loaded: Loaded) -> str:
    return str(loaded.path or "the defaults")


def _shown(config: Config, place: KeyPath) -> Any:
    """Free text may hold anything, so it is not shown."""
    if expected(schema_at(place, type(config)) or {}) == "text":
        return _MASK
    value: Any = config.model_dump(mode="json")
    for step in place:
        value = value[step]
    return value
