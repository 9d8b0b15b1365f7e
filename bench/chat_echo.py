"""The least that a bot can do with the same libraries: it answers every message, as fast as they let it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.chat_child import Platforms, run

_CONNECTIONS = 256
"""As many as the gateway's adapter allows itself."""


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
        living = asyncio.create_task(client.start(settings["token"]))
        await asyncio.wait({living, asyncio.create_task(ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
        if living.done():
            living.result()
        yield
        await client.close()
        await living


@asynccontextmanager
async def connected(platforms: Platforms) -> AsyncIterator[None]:
    ((name, settings),) = platforms.items()
    echo = {"telegram": telegram_echo, "discord": discord_echo}[name]
    async with echo(settings):
        yield


if __name__ == "__main__":
    run(connected)
