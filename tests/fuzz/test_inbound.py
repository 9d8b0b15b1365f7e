"""Any delivery of a chat service: the bot keeps running, and confirms only what it stored."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import discord
import pytest
import pytest_asyncio
from hypothesis import example, given
from hypothesis import strategies as st
from telegram import Update, User

from agent.errors import StoreError, StoreFull
from gateway.chat.keyed_queue import KeyedQueue
from gateway.platforms.discord.client import INTENTS
from gateway.platforms.telegram.api import BotApi, _PollRequest
from gateway.platforms.telegram.message_reader import TelegramFiles
from gateway.platforms.telegram.message_reader import TelegramReader as TelegramReader
from gateway.platforms.telegram.updates import UpdateReceiver
from gateway.types import ChatMessage, Press
from tests.fakes.discord.server import FakeDiscord, Intent
from tests.support.discord_harness import Bot, running
from tests.support.fuzz_discord_events import EVENTS
from tests.support.fuzz_telegram_updates import UPDATES
from tests.support.fuzz_values import spoilt, tries

CLOSED_PORT = "http://127.0.0.1:9"


class RecordingReceiver:
    """`InboundHandler` that records messages, or counts those that it refuses."""

    def __init__(self, refuses: bool) -> None:
        self.refuses = refuses
        self.refused = 0
        self.kept: list[ChatMessage] = []

    async def message(self, message: ChatMessage) -> bool:
        json.dumps([message.text, message.id, message.author.id])
        if self.refuses:
            self.refused += 1
            raise StoreFull
        self.kept.append(message)
        return True

    async def edited(self, message: ChatMessage) -> None:
        self.kept.append(message)

    async def pressed(self, press: Press) -> str:
        return "Done." if press.data.isascii() else ""


def numbered(updates: list[Any]) -> list[Any]:
    return [update | {"update_id": number} for number, update in enumerate(updates, 1)]


@given(
    updates=st.lists(st.sampled_from(UPDATES).flatmap(spoilt), min_size=1, max_size=3).map(numbered),
    refuses=st.booleans(),
)
@example(updates=numbered(UPDATES), refuses=False)
@example(updates=numbered(UPDATES), refuses=True)
@example(updates=numbered([{"message": UPDATES[0]["message"] | {"date": 10**400}}]), refuses=False)
@example(updates=numbered([{"message": UPDATES[0]["message"] | {"date": 2**63}}]), refuses=False)
@tries(80)
async def test_updates_of_telegram(updates: list[Any], refuses: bool) -> None:
    """They are taken in one poll: raises StoreError if one of them was not kept, and nothing else ever."""
    receiver, lines = RecordingReceiver(refuses), KeyedQueue()
    api = BotApi("1:fake", CLOSED_PORT)
    me = User(7_000_000_001, "Hermes", True, username="hermes_bot")
    update_receiver = UpdateReceiver(
        receiver, TelegramReader(me, {"compress"}, TelegramFiles(api.bot)), lines
    )  # type: ignore[arg-type]
    answer = _PollRequest.parse_json_payload(json.dumps({"ok": True, "result": updates}).encode())
    readable = [Update.de_json(update, api.bot) for update in answer["result"]]
    assert [update.update_id for update in readable] == [update["update_id"] for update in updates]
    try:
        await update_receiver.receive(readable)
    except StoreError:
        assert receiver.refused
    else:
        assert not receiver.refused
    await lines.close(5)
    await api.close()
    if updates == numbered(UPDATES):
        assert len(receiver.kept) == (0 if refuses else 12)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bot() -> AsyncIterator[Bot]:
    async with FakeDiscord() as server, running(Bot(server)) as bot:
        yield bot


def the_library_can_read(data: Any) -> bool:
    """What it cannot ends the connection, and another is made (`test_connection.py`)."""
    client = discord.Client(intents=INTENTS)
    try:
        client._connection.parse_message_create(deepcopy(data))
    except (TypeError, KeyError, ValueError, AttributeError, IndexError, OverflowError):
        return False
    return True


@pytest.mark.asyncio(loop_scope="module")
@given(data=st.sampled_from(EVENTS).flatmap(spoilt).filter(the_library_can_read))
@tries(60)
async def test_messages_of_discord(bot: Bot, data: Any) -> None:
    """Over a socket, with the real client: the next message of another person is accepted as usual."""
    connections = len(bot.server.gateway.identifies)
    bot.server.gateway.tell("MESSAGE_CREATE", Intent.DIRECT_MESSAGES, lambda _: data)
    ben = bot.server.person("Ben")
    await ben.says("And me?")
    while (heard := await bot.receiver.next_message()).author.id != str(ben.id):
        pass
    assert heard.text == "And me?"
    assert len(bot.server.gateway.identifies) == connections


@pytest.mark.parametrize("data", EVENTS)
def test_the_events_are_sound(data: Any) -> None:
    """Before they are spoilt."""
    assert the_library_can_read(data)
