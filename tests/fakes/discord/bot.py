"""The smallest bot on the real discord.py, to see the loopback Discord with the SDK's eyes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import discord
import pytest
import yarl
from discord import app_commands

from tests.fakes.discord.server import FakeDiscord
from tests.support.watch import PATIENCE


class Bot(discord.Client):
    """`heard`, `edits`, `deletions`, `pressed`: what the gateway told it."""

    def __init__(self, *, message_content: bool = True) -> None:
        intents = discord.Intents.default()
        intents.message_content = message_content
        super().__init__(intents=intents, guild_ready_timeout=0.05)
        self.tree = app_commands.CommandTree(self)
        self.heard: asyncio.Queue[discord.Message] = asyncio.Queue()
        self.edits: asyncio.Queue[discord.Message] = asyncio.Queue()
        self.deletions: asyncio.Queue[int] = asyncio.Queue()
        self.pressed: asyncio.Queue[discord.Interaction] = asyncio.Queue()
        self.is_up = asyncio.Event()

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """The SDK would wait five seconds before it identifies again."""

    async def on_message(self, message: discord.Message) -> None:
        self.heard.put_nowait(message)

    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        self.edits.put_nowait(event.message)

    async def on_raw_message_delete(self, event: discord.RawMessageDeleteEvent) -> None:
        self.deletions.put_nowait(event.message_id)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        if interaction.type is discord.InteractionType.component:
            self.pressed.put_nowait(interaction)

    async def on_ready(self) -> None:
        self.is_up.set()

    async def hears(self, text: str) -> discord.Message:
        """The next message that holds this text; earlier ones are passed over."""
        while True:
            message = await asyncio.wait_for(self.heard.get(), PATIENCE)
            if text in message.content:
                return message

    def channel(self, snowflake: int) -> discord.PartialMessageable:
        return self.get_partial_messageable(snowflake)

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        """A request the SDK would not make by itself."""
        options = {} if body is None else {"json": body}
        return await self.http.request(discord.http.Route(method, path), **options)


@contextlib.asynccontextmanager
async def online(server: FakeDiscord, bot: Bot | None = None, *, token: str = "") -> AsyncIterator[Bot]:
    """Raises what ended the client, when it ends before it is ready."""
    bot = bot or Bot()
    with pointed_at(server):
        running = asyncio.create_task(bot.start(token or server.token))
        ready = asyncio.create_task(bot.is_up.wait())
        try:
            await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
            if running.done():
                running.result()
            yield bot
        finally:
            ready.cancel()
            await bot.close()
            await asyncio.wait({running, ready})


@contextlib.contextmanager
def pointed_at(server: FakeDiscord) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discord.http.Route, "BASE", server.api_base)
        url = yarl.URL(server.gateway_url)
        patch.setattr(discord.gateway.DiscordWebSocket, "DEFAULT_GATEWAY", url)
        yield


@contextlib.contextmanager
def refused(code: int, sentence: str = "", *, status: int = 400) -> Iterator[None]:
    """The SDK raises that error."""
    with pytest.raises(discord.HTTPException) as caught:
        yield
    assert (caught.value.status, caught.value.code) == (status, code), caught.value
    assert sentence in caught.value.text
