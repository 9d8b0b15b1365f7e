"""Runs Hermes: start, signals, stop, and the lines that a person reads meanwhile."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from itertools import chain
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap

import structlog

from agent.errors import StoreError
from agent.tools.terminal import terminal
from gateway.app import App, build_app, build_platforms, program
from gateway.config.loader import LoadedConfig
from gateway.config.schema import Config, LoggingConfig
from gateway.models import embedded
from gateway.observability.logs import configure_logging, log_file
from gateway.open_files import LoopExceptionHandler, raise_limit
from gateway.platforms.base import Platform
from gateway.plugins.engines import BUILT_IN
from gateway.process_lock import write_address
from gateway.reload import on_hangup
from gateway.watchdog import ServiceManager, Watchdog

log = structlog.get_logger(__name__)

_DAY_SECONDS = 86_400.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LABEL_WIDTH = 10
_MIN_WIDTH = 40


async def serve(loaded: LoadedConfig, announce: Callable[[str], None]) -> None:
    """Run until SIGINT or SIGTERM. `announce` prints the lines that a person reads at the start and at the stop."""
    _configure_logging(loaded.config.logging, loaded.home)
    raise_limit()
    asyncio.get_running_loop().set_exception_handler(LoopExceptionHandler())
    async with build_app(loaded) as app, AsyncExitStack() as stack:
        manager = stack.enter_context(ServiceManager())
        # Before the first connection, so that every stop from here on is an orderly one.
        stopping = _stop_signal()
        on_hangup(app.settings, stopping.set)
        platforms = await _start_platforms(stack, app)
        for line in _startup_lines(app, platforms):
            announce(line)
        log.info("gateway.started", platforms={each.name: each.health.state for each in platforms})
        manager.notify("READY=1")
        sockets = chain.from_iterable(getattr(platform, "sockets", ()) for platform in platforms)
        await stack.enter_async_context(Watchdog(manager).watching(sockets))
        await app.gateway.plugins.hooks.emit("gateway_started", platforms=[each.name for each in platforms])
        app.settings.subscribe(lambda new: _configure_logging(new.logging, loaded.home))
        jobs = _start_jobs(app, platforms)
        await stopping.wait()
        for job in jobs:
            job.cancel()
        manager.notify("STOPPING=1")
        log.info("gateway.stopping")
        if answering := app.gateway.active_count:
            announce(_shutdown_line(answering, app.settings.config.gateway.drain_seconds))
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


def _configure_logging(config: LoggingConfig, home: Path) -> None:
    configure_logging(config.level, config.format, file=log_file(home) if config.file else None)


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


# -- lines for the person ------------------------------------------------------------------------------------


def _startup_lines(app: App, platforms: Sequence[Platform]) -> list[str]:
    loaded, plugins = app.loaded, app.gateway.plugins
    entries = [(_title(platform, app), _state(platform)) for platform in platforms]
    running = {app.platforms[platform.name].name for platform in platforms}
    entries += [
        (spec.title, f"off; `{program()} setup --only {spec.name}` connects a bot")
        for spec in app.platforms.bots
        if spec.name not in running
    ]
    entries += [
        ("Dashboard", f"{platform.where}/dashboard") for platform in platforms if platform.name == "web"
    ]
    about_model = filter(None, (app.model_choice, app.model_line, app.caching_line))
    entries += [("" if number else "Model", line) for number, line in enumerate(about_model)]
    unusable = plugins.unusable_engine
    entries += [
        ("Context", f"{BUILT_IN} instead of `{unusable}`" if unusable else loaded.config.context.engine),
        ("Store", loaded.store_name),
        ("Settings", loaded.source + ("" if loaded.path else f"; `{program()} setup` writes a hermes.yaml")),
        ("Terminal", f"{program()} chat"),
    ]
    if app.traces_line:
        entries.append(("Traces", app.traces_line))
    entries += [("Warning", sentence) for sentence in (*_warnings(loaded.config), *plugins.notices)]
    return [
        *(part for label, text in entries for part in _wrapped(f"{label} ".ljust(_LABEL_WIDTH), text)),
        "Ctrl-C stops Hermes; conversations continue at the next start.",
    ]


def _title(platform: Platform, app: App) -> str:
    _, slash, bot = platform.name.partition("/")
    return f"{app.platforms[platform.name].title}{slash}{bot}"


def _state(platform: Platform) -> str:
    if platform.health.state == "up":
        return platform.where
    yet = "" if platform.health.state == "refused" else " yet"
    return f"not connected{yet}. {platform.health.detail}".rstrip()


def _warnings(config: Config) -> Iterator[str]:
    """Remind the owner of dangerous settings."""
    if not any(terminal.name in names for names in (config.tools.enabled, *config.tools.platforms.values())):
        return
    if config.tools.sandbox.mode == "off":
        yield "the agent runs commands without a sandbox (tools.sandbox.mode: off)"
    if config.tools.approval == "off":
        yield "the agent runs commands without asking (tools.approval: off)"


def _wrapped(label: str, text: str) -> list[str]:
    """Wrap the text after the label at a terminal, without breaking addresses and paths."""
    if not sys.stdout.isatty():
        return [label + text]
    width = max(_MIN_WIDTH, get_terminal_size().columns) - _LABEL_WIDTH
    lines = wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
    return [label + lines[0], *(" " * _LABEL_WIDTH + line for line in lines[1:])]


def _shutdown_line(answering: int, seconds: float) -> str:
    answers = "One answer gets" if answering == 1 else f"{answering} answers get"
    return (
        f"Stopping. {answers} up to {seconds:g} s to finish; the rest continues at the next start. "
        "Ctrl-C again stops at once."
    )
