"""Builds a gateway and its web server as `gateway/app.py` does, with the agent and store of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from agent.loop import Agent
from gateway.commands import Commands
from gateway.config.loader import LoadedConfig
from gateway.config.schema import Config
from gateway.core.gateway import Gateway
from gateway.observability.metrics import Metrics
from gateway.platforms.base import Health, Platform
from gateway.platforms.web.dashboard.page import DashboardContext
from gateway.platforms.web.platform import WebPlatform
from gateway.plugins.loader import Plugins
from gateway.reload import LiveConfig
from gateway.store.sqlite.store import SqliteStore
from tests.support.configuration import current_config

COMMANDS = Commands.discover()

G = TypeVar("G", bound=Gateway)


def make_gateway(
    agent: Agent,
    store: SqliteStore,
    workspaces: Path,
    *,
    gateway_class: type[G] = Gateway,  # type: ignore[assignment]  # a default of a type variable
    config: dict[str, Any] | None = None,
    **options: Any,
) -> G:
    """Make a gateway with all built-in commands and no plugins. `config`: sections of the configuration, as in
    `{"gateway": {"busy": "steer"}}`; `options`: other arguments of `Gateway`."""
    settings = current_config(**(config or {}))
    return gateway_class(
        agent, store, COMMANDS, Plugins(), workspaces=workspaces, settings=settings, **options
    )


async def make_web(
    gateway: Gateway,
    *,
    loaded: LoadedConfig | None = None,
    platforms: Sequence[Platform] = (),
    metrics: Metrics | None = None,
    **options: Any,
) -> WebPlatform:
    """Make the web platform of a gateway: on a free port of the loopback interface and without a token, unless the
    `options` say otherwise."""
    loaded = loaded or LoadedConfig(Config(), None, Path("hermes-home"))
    settings = await asyncio.to_thread(LiveConfig, loaded)
    context = DashboardContext(gateway, settings, "A model.", platforms, metrics or Metrics())
    return WebPlatform(context, **{"host": "127.0.0.1", "port": 0, "token": None, **options})


@asynccontextmanager
async def serving(gateway: Gateway, **options: Any) -> AsyncIterator[WebPlatform]:
    """Run the web platform of a gateway; the options are those of `make_web`."""
    web = await make_web(gateway, **options)
    await web.start()
    try:
        yield web
    finally:
        await web.stop()


@dataclass
class FixedPlatform:
    """A platform that is in the state the test gives it."""

    name: str = "telegram"
    health: Health = field(default_factory=lambda: Health("up"))
    where: str = "somewhere"

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Gate(asyncio.Event):
    """A point in an answer at which the model waits for the test."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()

    async def wait(self) -> Literal[True]:
        self.reached.set()
        return await super().wait()
