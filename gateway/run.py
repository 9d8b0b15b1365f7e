"""Runs Hermes: start, signals, stop."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import structlog

from agent.errors import StoreError
from gateway.app import App, build_app, build_platforms
from gateway.banner import shutdown_line, startup_lines
from gateway.config.loader import LoadedConfig
from gateway.config.schema import LoggingConfig
from gateway.models import embedded
from gateway.observability.logs import configure_logging, configured_log_file
from gateway.open_files import LoopExceptionHandler, raise_limit
from gateway.platforms.base import Platform
from gateway.process_lock import write_address
from gateway.reload import on_hangup
from gateway.watchdog import Watchdog, sd_notify

log = structlog.get_logger(__name__)

_DAY_SECONDS = 86_400.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve(loaded: LoadedConfig, announce: Callable[[str], None]) -> None:
    """Run until SIGINT or SIGTERM. `announce` prints the lines that a person reads at the start and at the stop."""
    raise_limit()
    asyncio.get_running_loop().set_exception_handler(LoopExceptionHandler())
    async with build_app(loaded) as app, AsyncExitStack() as stack:
        # Before the first connection, so that every stop from here on is an orderly one.
        stopping = _stop_signal()
        on_hangup(app.settings, stopping.set)
        platforms = await _start_platforms(stack, app)
        for line in startup_lines(
            app.loaded,
            platforms,
            app.platforms,
            model=(app.model_choice, app.model_line, app.caching_line),
            traces=app.traces_line,
            plugins=app.gateway.plugins,
        ):
            announce(line)
        log.info("gateway.started", platforms={each.name: each.health.state for each in platforms})
        sd_notify("READY=1")
        await stack.enter_async_context(Watchdog().watching(_sockets(platforms)))
        await app.gateway.plugins.hooks.emit("gateway_started", platforms=[each.name for each in platforms])
        app.settings.subscribe(lambda new: _configure_logging(new.logging, loaded.home))
        jobs = _start_jobs(app, platforms)
        await stopping.wait()
        for job in jobs:
            job.cancel()
        sd_notify("STOPPING=1")
        log.info("gateway.stopping")
        if answering := app.gateway.active_count:
            announce(shutdown_line(answering, app.settings.config.gateway.drain_seconds))
        # Turns end before platforms stop, so that people see the end of their answers.
        await app.gateway.close()
        await app.gateway.plugins.hooks.emit("gateway_stopped")


async def _start_platforms(stack: AsyncExitStack, app: App) -> list[Platform]:
    platforms = build_platforms(app)
    for platform in platforms:
        stack.push_async_callback(platform.stop)
    for name in ("web", "terminal"):
        await app.gateway.recover(name)
    await asyncio.gather(*(platform.start() for platform in platforms))
    for platform in platforms:
        if platform.name == "web":
            await asyncio.to_thread(write_address, app.loaded.home, platform.where)
    return platforms


def _sockets(platforms: Sequence[Platform]) -> Iterator[socket.socket]:
    for platform in platforms:
        yield from getattr(platform, "sockets", ())


def _configure_logging(config: LoggingConfig, home: Path) -> None:
    configure_logging(config.level, config.format, file=configured_log_file(config, home))


def _start_jobs(app: App, platforms: Sequence[Platform]) -> list[asyncio.Task[None]]:
    jobs = (
        _load_model_library(app, platforms),
        _purge_inbox_daily(app),
        app.store.health.monitor(),
        app.settings.watch(),
        app.metrics.lag.measure(),
    )
    tasks = [asyncio.create_task(job) for job in jobs]
    for task in tasks:
        task.add_done_callback(_log_crash)
    return tasks


def _log_crash(task: asyncio.Task[None]) -> None:
    """Log the exception that ended a background job: nothing awaits its task."""
    if not task.cancelled() and (error := task.exception()):
        log.error("gateway.job_crashed", exc_info=error)


async def _purge_inbox_daily(app: App) -> None:
    while True:
        with suppress(StoreError):
            await app.gateway.store.inbox.purge_old()
        await asyncio.sleep(_DAY_SECONDS)


async def _load_model_library(app: App, platforms: Sequence[Platform]) -> None:
    """Load litellm, which takes seconds, before the first message of a bot needs it."""
    if any(platform.name != "web" for platform in platforms) and app.llm.model != embedded.MODEL_ID:
        from gateway.models.litellm_runtime import load_litellm  # noqa: PLC0415 - not for the embedded model

        await load_litellm()


def _stop_signal() -> asyncio.Event:
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()

    def stop() -> None:
        stopping.set()
        for number in _STOP_SIGNALS:
            # A second Ctrl-C then ends the process at once.
            loop.remove_signal_handler(number)

    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, stop)
    return stopping
