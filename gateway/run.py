"""Runs Hermes: signals, start, stop."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import structlog

from agent.errors import StoreError
from gateway import open_files as descriptors
from gateway.app import App, _platforms, build_app
from gateway.banner import shutdown_line, startup_lines
from gateway.config.loader import Loaded
from gateway.config.schema import LoggingConfig
from gateway.models import embedded
from gateway.observability.log_file import configured_log_file
from gateway.observability.logs import configure_logging
from gateway.platforms.base import Platform
from gateway.process_lock import write_address
from gateway.reload import on_hangup
from gateway.watchdog import Watchdog, sd_notify

log = structlog.get_logger(__name__)

_DAY = 86_400.0


_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve(loaded: Loaded, announce: Callable[[str], None]) -> None:
    """Runs until SIGINT or SIGTERM. `announce` gets the lines a person reads at the start."""
    descriptors.raise_limit()
    asyncio.get_running_loop().set_exception_handler(descriptors.LoopErrors())
    async with build_app(loaded) as hermes, AsyncExitStack() as stack:
        # From the first connection on, a stop is an orderly one.
        stopping = _stop_signal()
        on_hangup(hermes.settings, stopping.set)
        platforms = _platforms(hermes)
        for platform in platforms:
            stack.push_async_callback(platform.stop)
        for where in ("web", "terminal"):
            await hermes.gateway.recover(where)
        await asyncio.gather(*(platform.start() for platform in platforms))
        for platform in platforms:
            if platform.name == "web":
                await asyncio.to_thread(write_address, loaded.home, platform.where)
        model = (hermes.model_choice, hermes.model_line, hermes.caching_line)
        for line in startup_lines(
            loaded, platforms, model=model, traces=hermes.traces_line, plugins=hermes.gateway.plugins
        ):
            announce(line)
        names = [platform.name for platform in platforms]
        log.info(
            "gateway.watchdog", platforms={platform.name: platform.health.state for platform in platforms}
        )
        sd_notify("READY=1")
        await stack.enter_async_context(Watchdog().watching(_listening(platforms)))
        await hermes.gateway.plugins.emit("gateway_started", platforms=names)
        hermes.settings.followed_by(lambda new: _log_as(new.logging, loaded.home))
        jobs = (
            _warm_up(hermes, platforms),
            _tidy_daily(hermes),
            hermes.store.watch_for_damage(),
            hermes.settings.watch(),
            hermes.metrics.lag.measure(),
        )
        beside = [asyncio.create_task(job) for job in jobs]
        for task in beside:
            task.add_done_callback(_say_why)
        await stopping.wait()
        for task in beside:
            task.cancel()
        sd_notify("STOPPING=1")
        log.info("gateway.stopping")
        if answering := hermes.gateway.at_work:
            announce(shutdown_line(answering, hermes.settings.config.gateway.drain_seconds))
        # Turns first, so that those who watch see them end.
        await hermes.gateway.close()
        await hermes.gateway.plugins.emit("gateway_stopped")


def _listening(platforms: Sequence[Platform]) -> Iterator[socket.socket]:
    for platform in platforms:
        yield from getattr(platform, "sockets", ())


def _log_as(config: LoggingConfig, home: Path) -> None:
    configure_logging(config.level, config.format, file=configured_log_file(config, home))


def _say_why(task: asyncio.Task[None]) -> None:
    """Nobody waits for such a task, so what ended it too early would not be heard of."""
    if not task.cancelled() and (error := task.exception()):
        log.error("gateway.job_crashed", exc_info=error)


async def _tidy_daily(hermes: App) -> None:
    while True:
        with suppress(StoreError):
            await hermes.gateway.store.inbox.tidy()
        await asyncio.sleep(_DAY)


async def _warm_up(hermes: App, platforms: list[Platform]) -> None:
    """The model library takes seconds to load. Where people write to a bot, nobody should wait for that."""
    if any(platform.name != "web" for platform in platforms) and hermes.llm.model != embedded.MODEL_ID:
        from gateway.models.litellm_runtime import load_litellm  # noqa: PLC0415 - see above

        await load_litellm()


def _stop_signal() -> asyncio.Event:
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()

    def stop() -> None:
        stopping.set()
        for number in _STOP_SIGNALS:
            # Whoever is in more of a hurry presses Ctrl-C again.
            loop.remove_signal_handler(number)

    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, stop)
    return stopping
