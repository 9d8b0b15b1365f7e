"""The real adapter with a receiver that writes down what it is handed."""

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
from tests.fakes.discord.server import Channel, FakeDiscord, Intent

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
    """Do nothing."""


class RecordingReceiver:
    """`InboundHandler` that records events. `gate` delays its return, `allows` is its verdict."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.allows = True
        self.since = time.time()
        self.known: dict[Place, str] = {}
        self.refuses = 0
        """Number of coming messages that fail to be stored."""
        self.crashes_on = ""
        """A message with this text raises; so does `open()`, if this is `open`."""
        self.opens = True
        """False while the store fails at `open()`."""
        self.verdict = "Done."
        self.before_closing: Callable[[], Awaitable[None]] = _at_once
        self._messages: asyncio.Queue[ChatMessage] = asyncio.Queue()
        self._edits: asyncio.Queue[ChatMessage] = asyncio.Queue()
        self._presses: asyncio.Queue[Press] = asyncio.Queue()

    async def open(self) -> float:
        """Return the time since when the bot listens."""
        if self.crashes_on == "open":
            raise ZeroDivisionError
        if not self.opens:
            raise StoreFull
        return self.since

    async def message(self, message: ChatMessage) -> bool:
        if self.refuses:
            self.refuses -= 1
            raise StoreFull
        if self.crashes_on and message.text == self.crashes_on:
            raise ZeroDivisionError
        self._messages.put_nowait(message)
        await self.gate.wait()
        return self.allows

    async def edited(self, message: ChatMessage) -> None:
        self._edits.put_nowait(message)

    async def pressed(self, press: Press) -> str:
        self._presses.put_nowait(press)
        await self.gate.wait()
        return self.verdict

    async def newest(self) -> dict[Place, str]:
        return self.known

    async def close(self) -> None:
        await self.before_closing()

    @property
    def is_idle(self) -> bool:
        """Tell whether a test has read every recorded event."""
        return self._messages.empty() and self._edits.empty() and self._presses.empty()

    async def next_message(self) -> ChatMessage:
        return await asyncio.wait_for(self._messages.get(), PATIENCE)

    async def next_edit(self) -> ChatMessage:
        return await asyncio.wait_for(self._edits.get(), PATIENCE)

    async def next_press(self) -> Press:
        return await asyncio.wait_for(self._presses.get(), PATIENCE)


class Bot:
    """A Discord bot connected to the loopback server."""

    def __init__(
        self,
        server: FakeDiscord,
        *,
        token: str = "",
        api_base: str = "",
        commands: Sequence[Command] = COMMANDS,
        name: str = "",
        people: Sequence[int] = (),
        resume_seconds: float = 60.0,
    ) -> None:
        self.server = server
        self.receiver = RecordingReceiver()
        settings = DiscordBotConfig(
            token=SecretStr(token or server.token),
            api_base=api_base or server.api_base,
            gateway_url=server.gateway_url,
            allowed_groups=(server.guild.id,),
            allowed_users=tuple(people),
        )
        self.platform = DiscordPlatform(
            settings, self._receiver_for, commands, bot_name=name, resume_seconds=resume_seconds
        )

    def _receiver_for(self, port: ChatPort) -> InboundHandler:
        self.port_given = port
        return self.receiver

    @property
    def port(self) -> DiscordPort:
        return self.platform.port

    async def becomes(self, state: str) -> None:
        """Poll the health, which has no change event."""
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
    """Return the place that the adapter reports for this channel."""
    if channel.guild is None:
        return Place(str(channel.id))
    group = str(channel.guild.id)
    if channel.parent is not None:
        return Place(str(channel.parent.id), str(channel.id), "group", group)
    return Place(str(channel.id), "", "group", group)


def send_nonsense(server: FakeDiscord) -> None:
    """Send an event that the library cannot parse, so that it ends the connection."""
    server.gateway.tell("MESSAGE_CREATE", Intent.DIRECT_MESSAGES, lambda _: {"nonsense": True})
