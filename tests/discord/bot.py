"""The real adapter with a desk that writes down what it is handed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from pydantic import SecretStr

from agent.errors import StoreFull
from gateway.chat.adapter import ChatPort, InboundHandler
from gateway.commands import Command, CommandContext
from gateway.config.schema_platforms import DiscordBotConfig
from gateway.platforms.discord.platform import DiscordPlatform
from gateway.platforms.discord.port import DiscordPort
from gateway.types import ChatMessage, Place, Press
from tests.worlds.discord import Channel, DiscordWorld, Intent

PATIENCE = 10.0


async def _nothing(context: CommandContext, rest: str) -> str:
    return ""


COMMANDS = (
    Command("compress", "summarise older messages now", _nothing, argument="focus"),
    Command("reset", "begin a new session", _nothing, aliases=("new",)),
    Command("stop", "stop the answer", _nothing, overtakes=True),
    Command("undo-compress", "take the last compression back", _nothing),
)


async def _at_once() -> None:
    """Has nothing to do."""


class Desk:
    """Takes everything in; `let_in` can keep those who come waiting, `welcome` tells whether they may speak."""

    def __init__(self) -> None:
        self.let_in = asyncio.Event()
        self.let_in.set()
        self.welcome = True
        self.since = time.time()
        self.known: dict[Place, str] = {}
        self.refuses = 0
        """So many messages cannot be kept."""
        self.stumbles_over = ""
        """A message with this text brings a bug to light; so does the opening, if it is `open`."""
        self.opens = True
        """False while the store refuses to say what was seen before."""
        self.verdict = "Done."
        self.before_closing: Callable[[], Awaitable[None]] = _at_once
        self._messages: asyncio.Queue[ChatMessage] = asyncio.Queue()
        self._edits: asyncio.Queue[ChatMessage] = asyncio.Queue()
        self._presses: asyncio.Queue[Press] = asyncio.Queue()

    async def open(self) -> float:
        """Nothing was left."""
        if self.stumbles_over == "open":
            raise ZeroDivisionError
        if not self.opens:
            raise StoreFull
        return self.since

    async def message(self, message: ChatMessage) -> bool:
        if self.refuses:
            self.refuses -= 1
            raise StoreFull
        if self.stumbles_over and message.text == self.stumbles_over:
            raise ZeroDivisionError
        self._messages.put_nowait(message)
        await self.let_in.wait()
        return self.welcome

    async def edited(self, message: ChatMessage) -> None:
        self._edits.put_nowait(message)

    async def pressed(self, press: Press) -> str:
        self._presses.put_nowait(press)
        await self.let_in.wait()
        return self.verdict

    async def newest(self) -> dict[Place, str]:
        return self.known

    async def close(self) -> None:
        await self.before_closing()

    @property
    def is_idle(self) -> bool:
        """Whether everything that was handed in has been looked at."""
        return self._messages.empty() and self._edits.empty() and self._presses.empty()

    async def heard(self) -> ChatMessage:
        return await asyncio.wait_for(self._messages.get(), PATIENCE)

    async def saw_edit(self) -> ChatMessage:
        return await asyncio.wait_for(self._edits.get(), PATIENCE)

    async def felt_press(self) -> Press:
        return await asyncio.wait_for(self._presses.get(), PATIENCE)


class Bot:
    """A bot in a world. Several of them may follow one another."""

    def __init__(
        self,
        world: DiscordWorld,
        *,
        token: str = "",
        api_base: str = "",
        commands: Sequence[Command] = COMMANDS,
        name: str = "",
        people: Sequence[int] = (),
        resume_seconds: float = 60.0,
    ) -> None:
        self.world = world
        self.desk = Desk()
        settings = DiscordBotConfig(
            token=SecretStr(token or world.token),
            api_base=api_base or world.api_base,
            gateway_url=world.gateway_url,
            allowed_groups=(world.guild.id,),
            allowed_users=tuple(people),
        )
        self.platform = DiscordPlatform(
            settings, self._desk_for, commands, bot_name=name, resume_seconds=resume_seconds
        )

    def _desk_for(self, port: ChatPort) -> InboundHandler:
        self.handed_out = port
        return self.desk

    @property
    def port(self) -> DiscordPort:
        return self.platform.port

    async def becomes(self, state: str) -> None:
        """Health has no bell to ring, so it is looked at until it has changed."""
        async with asyncio.timeout(PATIENCE):
            while self.platform.health.state != state:  # noqa: ASYNC110 - see above
                await asyncio.sleep(0.01)


@asynccontextmanager
async def running(bot: Bot) -> AsyncIterator[Bot]:
    await bot.platform.start()
    try:
        yield bot
    finally:
        await bot.platform.stop()


def place(channel: Channel) -> Place:
    """Where the adapter should say that something in this channel happened."""
    if channel.guild is None:
        return Place(str(channel.id))
    group = str(channel.guild.id)
    if channel.parent is not None:
        return Place(str(channel.parent.id), str(channel.id), "group", group)
    return Place(str(channel.id), "", "group", group)


def send_nonsense(world: DiscordWorld) -> None:
    """An event that the library cannot read: it ends its connection."""
    world.gateway.tell("MESSAGE_CREATE", Intent.DIRECT_MESSAGES, lambda _: {"nonsense": True})
