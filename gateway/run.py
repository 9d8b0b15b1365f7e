"""The composition root: the one place that knows the concrete classes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache

import structlog

from agent.llm import LLMClient
from agent.loop import Agent
from agent.store import SessionStore
from agent.tool import discover
from agent.toolbox import Toolbox, choose_tools
from gateway.commands import Commands
from gateway.config.load import Loaded, ensure_home
from gateway.config.schema import Config
from gateway.gateway import Gateway
from gateway.models import embedded
from gateway.models.configured import configured_llm
from gateway.platforms.base import Platform
from gateway.state_lock import only_process
from gateway.store.sqlite import SqliteStore

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Hermes:
    """Everything put together, with no platform started."""

    loaded: Loaded
    store: SessionStore
    llm: LLMClient
    gateway: Gateway
    model_choice: str
    """Which model answers and why."""
    model_line: str
    """What a person should know about it; empty for an ordinary model."""


@asynccontextmanager
async def compose(loaded: Loaded) -> AsyncIterator[Hermes]:
    """Hermes on its state directory, which no other process may use meanwhile."""
    config = loaded.config
    ensure_home(loaded.home)
    async with AsyncExitStack() as stack:
        stack.enter_context(only_process(loaded.home))
        choice, llm = await asyncio.to_thread(configured_llm, config.model)
        stack.push_async_callback(llm.close)
        toolbox_for = await asyncio.to_thread(_toolboxes, config)
        commands = await asyncio.to_thread(Commands.discover)
        store = await SqliteStore.open(loaded.database)
        stack.push_async_callback(store.close)
        agent = Agent(
            llm,
            store,
            toolbox_for,
            instructions=config.agent.system_prompt,
            max_iterations=config.agent.max_iterations,
        )
        gateway = Gateway(agent, store, commands, workspaces=loaded.home / "workspaces")
        stack.push_async_callback(gateway.close)
        honest = embedded.HONEST_LINE if choice.model == embedded.MODEL_ID else ""
        yield Hermes(loaded, store, llm, gateway, choice.why, honest)


async def serve(loaded: Loaded, announce: Callable[[str], None]) -> None:
    """Runs until SIGINT or SIGTERM. `announce` gets the lines a person reads at the start."""
    async with compose(loaded) as hermes, AsyncExitStack() as stack:
        platforms = _platforms(hermes)
        for platform in platforms:
            stack.push_async_callback(platform.stop)
            await platform.start()
        stopping = _stop_signal()
        for line in _welcome(hermes, platforms):
            announce(line)
        log.info("gateway.ready", platforms=[platform.name for platform in platforms])
        await stopping.wait()
        log.info("gateway.stopping")
        # Turns first, so that those who watch see them end.
        await hermes.gateway.close()


def _platforms(hermes: Hermes) -> list[Platform]:
    """Those that are on. A platform's libraries are heavy and loaded only for it."""
    web = hermes.loaded.config.platforms.web
    if not web.enabled:
        return []
    from gateway.platforms.web import WebPlatform  # noqa: PLC0415

    token = web.token.get_secret_value() if web.token else None
    return [
        WebPlatform(hermes.gateway, host=web.host, port=web.port, token=token, model_line=hermes.model_line)
    ]


def _toolboxes(config: Config) -> Callable[[str], Toolbox]:
    available = discover()

    @cache
    def toolbox_for(platform: str) -> Toolbox:
        return Toolbox(choose_tools(available, config.tools.enabled, config.tools.platforms, platform))

    toolbox_for("")  # an unknown tool name is found now, not at the first message
    return toolbox_for


def _stop_signal() -> asyncio.Event:
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping


def _welcome(hermes: Hermes, platforms: list[Platform]) -> list[str]:
    loaded = hermes.loaded
    on = [f"{platform.name.capitalize():<10}{platform.where}" for platform in platforms]
    off = [] if platforms else ["No platform is on; set `platforms.web.enabled: true` in hermes.yaml."]
    return [
        *on,
        *off,
        f"Model     {hermes.model_choice}",
        *([f"          {hermes.model_line}"] if hermes.model_line else []),
        f"Store     {loaded.database}",
        f"Settings  {loaded.path or 'the defaults; `hermes setup` writes a hermes.yaml'}",
        "Terminal  hermes chat",
        "Ctrl-C stops Hermes; conversations go on at the next start.",
    ]
