"""The bots that `bench/chat.py` compares, each in its own process: the gateway, and an echo bot on the same library.

The gateway is not `hermes run`, which calls its model through litellm: 60 to 90 ms of CPU per answer would hide the
figures.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any, Literal

Bot = Literal["gateway", "echo"]
Platforms = dict[str, Any]
"""The section `platforms` of a configuration, with one platform in it."""

ANSWER = "It will be **mild**, with a little rain in the evening."

_CONNECTIONS = 256
"""The limit of the gateway's adapter."""


class Child:
    """The process of a bot, as the benchmark sees it."""

    def __init__(self, process: asyncio.subprocess.Process, errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors

    async def cpu_seconds(self) -> float:
        """Return the CPU time that all threads have used since the start."""
        return float(await self.ask("cpu"))

    async def ask(self, line: str) -> str:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{line}\n".encode())
        answer = await self._process.stdout.readline()
        if not answer:
            self._errors.seek(0)
            raise RuntimeError(f"The bot has ended:\n{self._errors.read().decode()[-3_000:]}")
        return answer.decode()


@asynccontextmanager
async def running(bot: Bot, platforms: Platforms) -> AsyncIterator[Child]:
    """Start a bot and wait until it is connected. It ends when its standard input closes."""
    pipe = asyncio.subprocess.PIPE
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.chat_bots", bot, stdin=pipe, stdout=pipe, stderr=errors
        )
        assert process.stdin
        child = Child(process, errors)
        try:
            await child.ask(json.dumps(platforms))
            yield child
        finally:
            process.stdin.close()
            await process.wait()


@asynccontextmanager
async def gateway_bot(platforms: Platforms) -> AsyncIterator[None]:
    """Run the gateway with its real platforms and store, and a model that takes no time."""
    from bench.measure import TEMPORARY, SteadyLLM, opened_store, running_gateway
    from gateway.config.loader import LoadedConfig
    from gateway.config.schema import Config
    from gateway.media.attachments import AttachmentReader
    from gateway.models.catalog import VisionCheck
    from gateway.observability.logs import configure_logging
    from gateway.observability.metrics import Metrics
    from gateway.platforms.base import Services
    from gateway.platforms.registry import PlatformRegistry
    from gateway.reload import LiveConfig

    config = Config.model_validate({"platforms": {"web": {"enabled": False}, **platforms}})
    configure_logging(config.logging.level, config.logging.format)
    with tempfile.TemporaryDirectory(prefix=TEMPORARY) as home:
        folder = Path(home)
        async with opened_store(folder) as store:
            async with running_gateway(SteadyLLM([ANSWER]), store, folder) as gateway:
                media = AttachmentReader(VisionCheck(gateway.agent.models, configured=False))
                live = LiveConfig(LoadedConfig(config, None, folder))
                services = Services(
                    live, gateway, store.access, media, model="", model_line="", metrics=Metrics()
                )
                (platform,) = PlatformRegistry().build(services)
                await platform.start()
                if platform.health.state != "up":
                    raise RuntimeError(platform.health.detail)
                yield
            await platform.stop()


@asynccontextmanager
async def telegram_echo(settings: dict[str, Any]) -> AsyncIterator[None]:
    from telegram import Bot, Update
    from telegram.ext import Updater
    from telegram.request import HTTPXRequest

    root = settings["base_url"]
    bot = Bot(
        settings["token"],
        base_url=f"{root}/bot",
        base_file_url=f"{root}/file/bot",
        request=HTTPXRequest(_CONNECTIONS, pool_timeout=60.0),
    )
    updates: asyncio.Queue[object] = asyncio.Queue()

    async def answer_all() -> None:
        async with asyncio.TaskGroup() as answers:
            while True:
                update = await updates.get()
                assert isinstance(update, Update) and update.message
                answers.create_task(bot.send_message(update.message.chat_id, update.message.text or ""))

    async with Updater(bot, updates) as updater:
        answering = asyncio.create_task(answer_all())
        await updater.start_polling()
        yield
        await updater.stop()
        answering.cancel()
        await asyncio.wait([answering])


@asynccontextmanager
async def discord_echo(settings: dict[str, Any]) -> AsyncIterator[None]:
    import discord
    import yarl

    discord.http.Route.BASE = settings["api_base"]
    discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(settings["gateway_url"])
    ready = asyncio.Event()

    class Echo(discord.Client):
        async def on_ready(self) -> None:
            ready.set()

        async def on_message(self, message: discord.Message) -> None:
            if message.author != self.user:
                await message.channel.send(message.content)

    intents = discord.Intents(guilds=True, messages=True, message_content=True)
    async with Echo(intents=intents, guild_ready_timeout=0.1) as client:
        running = asyncio.create_task(client.start(settings["token"]))
        await asyncio.wait({running, asyncio.create_task(ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        yield
        await client.close()
        await running


async def _serve(bot: str) -> None:
    """Run a bot. The first line of the input is its configuration, every further line asks for the CPU time."""
    platforms: Platforms = json.loads(sys.stdin.readline())
    if bot == "gateway":
        connected = gateway_bot(platforms)
    elif "telegram" in platforms:
        connected = telegram_echo(platforms["telegram"])
    else:
        connected = discord_echo(platforms["discord"])
    async with connected:
        print("connected", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(time.process_time(), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
