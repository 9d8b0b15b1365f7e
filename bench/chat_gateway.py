"""The gateway with its real platforms and store, and a model that takes no time.

Not `hermes run`: that asks its model through litellm, whose 60 to 90 ms of CPU per answer would hide what is measured
here.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent.llm import ChatRequest, Completion, LLMEvent, TextChunk, Usage
from bench.chat_child import Platforms, run
from gateway.commands import Commands
from gateway.config.loader import LoadedConfig
from gateway.config.schema import Config
from gateway.core.gateway import Gateway
from gateway.media.attachments import AttachmentReader
from gateway.models.catalog import VisionCheck
from gateway.observability.logs import configure_logging
from gateway.platforms.base import Services
from gateway.platforms.registry import PlatformRegistry
from gateway.plugins import Plugins
from gateway.reload import LiveConfig
from gateway.store.sqlite.store import SqliteStore
from tests.support.agents import make_agent
from tests.support.configuration import current_config

ANSWER = "It will be **mild**, with a little rain in the evening."


class InstantLLM:
    model, context_length, supports_tools = "bench/instant", 128_000, False

    async def stream(self, request: ChatRequest) -> AsyncGenerator[LLMEvent, None]:
        yield TextChunk(ANSWER)
        yield Completion(ANSWER, usage=Usage(1_000, 15), model=self.model)

    async def complete(self, request: ChatRequest) -> Completion:
        return Completion(ANSWER, model=self.model)

    async def close(self) -> None:
        """Nothing to close."""


@asynccontextmanager
async def connected(platforms: Platforms) -> AsyncIterator[None]:
    config = Config.model_validate({"platforms": {"web": {"enabled": False}, **platforms}})
    configure_logging(config.logging.level, config.logging.format)
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder:
        store = await SqliteStore.open(Path(folder) / "state.db")
        agent = make_agent(InstantLLM(), store.sessions)
        gateway = Gateway(
            agent, store, Commands.discover(), Plugins(), settings=current_config(), workspaces=Path(folder)
        )
        media = AttachmentReader(VisionCheck(agent.models, configured=False))
        live_config = LiveConfig(LoadedConfig(config, None, Path(folder)))
        services = Services(live_config, gateway, store.access, store.reports, media, model="", model_line="")
        (platform,) = PlatformRegistry().build(services)
        await platform.start()
        if platform.health.state != "up":
            raise RuntimeError(platform.health.detail)
        yield
        await gateway.close()
        await platform.stop()
        await store.close()


if __name__ == "__main__":
    run(connected)
