"""The settings a running Hermes goes by: read again on SIGHUP and when the file changes.

A file that cannot be used changes nothing. Of one that can, those who follow get what may change while Hermes runs;
the rest is named in the log and by `/status` until the next start.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from agent.errors import HermesError
from agent.redaction import keeping_secret
from gateway.config.describe import dotted, expected, schema_at
from gateway.config.document import Place
from gateway.config.load import Loaded, find, load
from gateway.config.reloadable import differences, in_effect
from gateway.config.schema import Config
from gateway.config.secrets import secrets_of
from gateway.config_check import check_names
from gateway.errors import ConfigError

log = structlog.get_logger(__name__)

POLL_SECONDS = 1.0
"""A change counts once the file has looked the same twice: an editor may be in the middle of writing it."""
_MASK = "**********"

Follower = Callable[[Config], None]
_Look = tuple[tuple[int, int, int, int] | None, ...]


class Settings:
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
        loaded = load(self._started.path)
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


def on_hangup(settings: Settings, stop: Callable[[], None]) -> None:
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


def _shown(config: Config, place: Place) -> Any:
    """Free text may hold anything, so it is not shown."""
    if expected(schema_at(place) or {}) == "text":
        return _MASK
    value: Any = config.model_dump(mode="json")
    for step in place:
        value = value[step]
    return value
