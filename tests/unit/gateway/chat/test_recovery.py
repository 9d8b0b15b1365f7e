"""A bot whose process has died: what it finds in its database, and what people see when it is back."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.errors import StoreFull
from agent.store import Address
from gateway.chat.errors import ContentRefused
from gateway.types import Attachment, ChatMessage, Place
from tests.support.chat_service import ChatService
from tests.support.receiver_harness import ANNA, GROUP, restartable_bot
from tests.support.watch import until

DIRECT = Place("1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


async def test_what_was_acknowledged_is_answered_after_a_kill(path: Path) -> None:
    """One was being answered, one waited, one had not even been read: each gets one reply, in order."""
    service = ChatService()
    async with restartable_bot(path, service, ["Half", asyncio.Event()]) as before:
        for text in ("one", "two", "three"):
            await before.hears(text)
        await until(lambda: any("Half" in text for text in before.shown))
        left = before.after_a_kill()
        seen = [
            replace(message) for message in service.messages
        ]  # the dying process may still change the others
    service = ChatService()
    service.messages, service._ids = seen, itertools.count(100)
    async with restartable_bot(left, service, "First.", "Second.", "Third.") as after:
        await until(lambda: "Third." in after.shown)
        assert after.shown == ["First.", "Second.", "Third."]
        assert after.prompts == ["one", "two", "three"]


async def test_the_parts_of_a_paste_are_one_message_again(path: Path) -> None:
    """Each part was acknowledged by itself; after a kill they belong together as before, and only once."""
    async with restartable_bot(path, ChatService()) as before:
        await before.hears("first half", maybe_unfinished=True)
        await before.hears("second half")
        left = before.after_a_kill()
    async with restartable_bot(left, ChatService(), "Whole.") as after:
        await until(lambda: after.shown == ["Whole."])
        assert after.prompts == ["first half\nsecond half"]
        left_again = after.after_a_kill()
    async with restartable_bot(left_again, ChatService()) as at_last:
        assert await at_last.store.inbox.waiting("memory") == [] and at_last.prompts == []


async def test_a_file_is_fetched_again(path: Path) -> None:
    """What is kept of it is where the service has it."""
    is_killed = asyncio.Event()

    async def never(most: int) -> bytes:
        await is_killed.wait()
        return b""

    service = ChatService()
    service.files["ref-1"] = b"the contents"
    async with restartable_bot(path, service) as before:
        file = Attachment("notes.txt", "text/plain", "document", 12, never, "ref-1")
        await before.hears("read this", attachments=(file,))
        left = before.after_a_kill()
        is_killed.set()
    async with restartable_bot(left, service, "Read.") as after:
        await until(lambda: "Read." in after.shown)
        assert "the contents" in after.prompts[0]


async def test_an_edit_while_it_waits_counts_after_a_kill(path: Path) -> None:
    """A message that was edited before it was read is read in its new form."""
    async with restartable_bot(path, ChatService(), ["Busy", asyncio.Event()]) as before:
        await before.hears("one")
        await until(lambda: len(before.llm.requests) == 1)
        waiting = await before.hears("tow")
        changed = ChatMessage(waiting.id, DIRECT, ANNA, "two")
        await before.receiver.edited(changed)
        left = before.after_a_kill()
    async with restartable_bot(left, ChatService(), "One.", "Two.") as after:
        await until(lambda: len(after.llm.requests) == 2)
        assert after.prompts == ["one", "two"]


async def test_what_the_store_refuses_is_told_once_and_taken_later(path: Path) -> None:
    """The service is told that it was not taken, and so is the person; when there is room it is taken, once."""
    service = ChatService()
    async with restartable_bot(path, service, "At last.") as bot:
        await bot.hears("warm up the store")
        await until(lambda: "At last." in bot.shown)
        bot.llm.then("Taken.")
        message = ChatMessage("900", DIRECT, ANNA, "now")
        with closing(sqlite3.connect(path)) as other:
            pages = other.execute("PRAGMA page_count").fetchone()[0]
        await bot.store.database.write(_bound, pages, fence=None)
        big = ChatMessage("900", DIRECT, ANNA, "now " * 50_000)
        for _ in range(2):
            with pytest.raises(StoreFull):
                await bot.receiver.message(big)
        await until(lambda: sum("cannot store your message" in text for text in bot.shown) == 1)
        await bot.store.database.write(_bound, 2**30, fence=None)
        await bot.receiver.message(message)
        await until(lambda: "Taken." in bot.shown)


def _bound(connection: sqlite3.Connection, pages: int) -> None:
    connection.execute(f"PRAGMA max_page_count = {pages}")


async def test_a_kept_message_that_nobody_can_read_is_parked(path: Path) -> None:
    """It does not keep the others from being answered."""
    async with restartable_bot(path, ChatService(), ["Busy", asyncio.Event()]) as before:
        await before.hears("one")
        await before.hears("two")
        left = before.after_a_kill()
    with closing(sqlite3.connect(left)) as connection:
        connection.execute("""UPDATE inbox SET payload = '{"strange": true}' WHERE seq = 1""")
        connection.commit()
    async with restartable_bot(left, ChatService(), "Two.") as after:
        await until(lambda: "Two." in after.shown)
        assert [parked.reason for parked in await after.store.inbox.parked()] == [
            "it cannot be read any more"
        ]


async def test_what_is_overheard_is_not_kept(path: Path) -> None:
    """Only what is meant for the bot."""
    async with restartable_bot(path, ChatService()) as bot:
        await bot.hears("just talking", place=GROUP, addressed=False)
        assert await bot.store.inbox.waiting("memory") == []


async def test_a_message_delivered_again_after_a_restart_is_known(path: Path) -> None:
    """Its id tells; and where the service has to be asked for what was missed, the desk knows from where on."""
    service = ChatService()
    async with restartable_bot(path, service, "One.") as before:
        message = await before.hears("hello")
        await until(lambda: "One." in before.shown)
    async with restartable_bot(path, service) as after:
        await after.receiver.message(message)
        assert await after.store.inbox.waiting("memory") == []
        assert await after.receiver.newest() == {DIRECT: message.id}
        assert after.prompts == []


async def test_since_when_a_bot_listens_is_remembered(path: Path) -> None:
    """From its very first start on."""
    async with restartable_bot(path, ChatService()) as before:
        since = await before.receiver.open()
    async with restartable_bot(path, ChatService()) as after:
        assert await after.receiver.open() == since


def _breaks_after(text: str, seen: asyncio.Event) -> list[Any]:
    return [text, seen, 5]  # a number is not a text: reading it fails


async def test_a_crash_in_the_middle_of_an_answer_leaves_no_half_answer(path: Path) -> None:
    """The turn is parked; the part of the answer that was visible is deleted."""
    service, seen = ChatService(), asyncio.Event()
    async with restartable_bot(path, service, _breaks_after("Half of an", seen)) as bot:
        await bot.hears("hello")
        await until(lambda: any("Half of an" in text for text in bot.shown))
        seen.set()
        await until(lambda: any("broke down" in text for text in bot.shown))
        await until(lambda: len(bot.shown) == 1)
        assert "not complete" not in bot.shown[0] and "`/retry`" in bot.shown[0]
        conversation = await bot.store.sessions.open_conversation(
            Address(service.platform, "1"), person="memory:1"
        )
        transcript = await bot.store.sessions.transcript(conversation.id)
        assert [message.role for message in transcript] == ["user"]
        left = bot.after_a_kill()
    async with restartable_bot(left, service) as after:
        assert await after.store.outbox.undelivered("memory") == []
        assert len(after.shown) == 1


async def test_half_an_answer_that_cannot_be_deleted_is_called_incomplete(path: Path) -> None:
    service, seen = ChatService(), asyncio.Event()
    async with restartable_bot(path, service, _breaks_after("Half of an", seen)) as bot:
        await bot.hears("hello")
        await until(lambda: any("Half of an" in text for text in bot.shown))
        service.fail("delete", ContentRefused())
        seen.set()
        await until(lambda: any("broke down" in text for text in bot.shown))
        half, notice, _ = bot.shown
        assert "Half of an" in half and "only a part of an answer" in notice
