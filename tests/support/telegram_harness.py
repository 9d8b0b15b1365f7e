"""A Telegram bot on the loopback server, with a receiver that writes down what it is handed."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from agent.errors import StoreFull
from gateway.chat.adapter import ChatPort
from gateway.commands import Again, Command, CommandContext
from gateway.config.schema_platforms import TelegramBotConfig
from gateway.platforms.base import Health
from gateway.platforms.telegram.platform import TelegramPlatform
from gateway.types import ChatMessage, Place, Press
from tests.fakes.telegram.server import Chat, FakeTelegram, Message, Person
from tests.support.watch import PATIENCE


class RecordingReceiver:
    """`InboundHandler` that records events. Messages of a chat wait for its gate, which a test can close."""

    def __init__(self) -> None:
        self.opened = 0
        self.refuses = 0
        """Number of coming messages that fail to be stored."""
        self.never_refused: set[str] = set()
        self.messages: list[ChatMessage] = []
        self.edits: list[ChatMessage] = []
        self.presses: list[Press] = []
        self.answer = "Done."
        self.on_close: Callable[[], Awaitable[object]] | None = None
        """Called when the platform stops."""
        self.gates: dict[str, asyncio.Event] = defaultdict(_open_gate)
        """By chat id."""
        self._new: asyncio.Queue[ChatMessage] = asyncio.Queue()
        self._new_edits: asyncio.Queue[ChatMessage] = asyncio.Queue()

    async def open(self) -> float:
        self.opened += 1
        return 0.0

    async def message(self, message: ChatMessage) -> bool:
        await self.gates[message.place.chat_id].wait()
        if self.refuses and message.text not in self.never_refused:
            self.refuses -= 1
            raise StoreFull
        if message.text == "explode":
            raise RuntimeError("the receiver failed")
        self.messages.append(message)
        self._new.put_nowait(message)
        return True

    async def edited(self, message: ChatMessage) -> None:
        self.edits.append(message)
        self._new_edits.put_nowait(message)

    async def pressed(self, press: Press) -> str:
        self.presses.append(press)
        if press.data == "explode":
            raise RuntimeError("the receiver failed")
        return self.answer

    async def close(self) -> None:
        if self.on_close is not None:
            await self.on_close()

    async def next(self) -> ChatMessage:
        return await asyncio.wait_for(self._new.get(), PATIENCE)

    async def next_edit(self) -> ChatMessage:
        return await asyncio.wait_for(self._new_edits.get(), PATIENCE)


def _open_gate() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate


@dataclass
class TelegramHarness:
    server: FakeTelegram
    platform: TelegramPlatform
    receiver: RecordingReceiver
    ada: Person = field(init=False)

    def __post_init__(self) -> None:
        self.ada = self.server.person(first_name="Ada", last_name="Lovelace", username="ada_l")

    @property
    def port(self) -> ChatPort:
        return self.platform.port

    @property
    def direct(self) -> Place:
        """Ada's chat with the bot."""
        return Place(str(self.ada.chat.id))

    async def until(self, state: str) -> Health:
        async with asyncio.timeout(2 * PATIENCE):
            while self.platform.health.state != state:  # noqa: ASYNC110 - health has no change event
                await asyncio.sleep(0.01)
        return self.platform.health

    async def says(self, text: str, **how: Any) -> ChatMessage:
        """Let Ada write, and return the message as the receiver gets it."""
        await self.ada.says(text, **how)
        return await self.receiver.next()

    async def shows(self, chat: Chat | None = None, **fields: Any) -> ChatMessage:
        """Deliver a message with these raw fields, and return it as the receiver gets it."""
        self.post(chat, **fields)
        return await self.receiver.next()

    def post(self, chat: Chat | None = None, **fields: Any) -> Message:
        message = (chat or self.ada.chat).post(self.ada.user, service=fields)
        self.server.tell("message", message)
        return message


async def _unused(context: CommandContext, rest: str) -> str | Again:
    raise AssertionError("an adapter runs no command")


COMMANDS = (
    Command("compress", "make room", _unused, argument="focus"),
    Command("status", "how things are", _unused, aliases=("stat",)),
    Command("undo-compress", "take it back", _unused),
    Command("model", "choose a model", _unused, for_admins=True),
)


def settings_for(server: FakeTelegram, **more: Any) -> TelegramBotConfig:
    return TelegramBotConfig.model_validate({"token": server.token, "base_url": server.url, **more})


@asynccontextmanager
async def running(
    server: FakeTelegram,
    *,
    settings: TelegramBotConfig | None = None,
    commands: Sequence[Command] = COMMANDS,
    refuses: int = 0,
    never_refused: str = "",
    **how: Any,
) -> AsyncIterator[TelegramHarness]:
    receiver = RecordingReceiver()
    receiver.refuses, receiver.never_refused = refuses, {never_refused}
    how = {"retry_seconds": 0.1, **how}
    platform = TelegramPlatform(settings or settings_for(server), lambda port: receiver, commands, **how)
    await platform.start()
    try:
        yield TelegramHarness(server, platform, receiver)
    finally:
        await platform.stop()
