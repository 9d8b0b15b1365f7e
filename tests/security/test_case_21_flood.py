"""A flood: one person, many people, a group. Others are served, memory is bounded, nothing that was taken is lost.

Case 21 has two more parts: `unit/gateway/limits/test_budget_turns.py` (the budget ends in the middle of a turn) and
`tests/unit/gateway/limits/test_rate.py` (the rate by itself).
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.errors import StoreFull
from agent.llm import ChatRequest
from agent.llm.guards import spender
from agent.messages import Message
from agent.store import Address
from gateway.config.schema import LimitsConfig
from gateway.limits import Limits
from gateway.types import Attachment, Author, ChatMessage, Place
from tests.support.chat_service import ChatService
from tests.support.media_files import attachment
from tests.support.receiver_harness import ANNA, BOB, GROUP, Bot, restartable_bot, running_bot
from tests.support.watch import until

MINUTE = 60.0
TOO_OFTEN = "Too many messages: Hermes accepts"
TOO_LONG = "Too many messages are waiting"


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Crowd:
    """A bot, a clock, and what was written to it."""

    bot: Bot
    clock: Clock
    held: asyncio.Event
    """Until it is set, no answer to Anna ends."""
    written: list[tuple[Author, ChatMessage]] = field(default_factory=list)

    async def writes(self, author: Author, text: str, **more: Any) -> None:
        self.written.append((author, await self.bot.hears(text, author, **more)))

    async def transcript(self, place: Place) -> list[Message]:
        address = Address(self.bot.service.platform, place.chat_id)
        conversation = await self.bot.store.sessions.open_conversation(address, person="?")
        return await self.bot.store.sessions.transcript(conversation.id)

    async def is_done(self) -> None:
        """Wait until every accepted message is answered."""
        await self.bot.settled()

    def said(self, words: str) -> int:
        return sum(words in shown.text for shown in self.bot.service.messages)


@asynccontextmanager
async def crowd(
    folder: Path, *, hold: bool = False, people: int = 0, join_seconds: float = 0.05, **limits: Any
) -> AsyncIterator[Crowd]:
    held, clock = asyncio.Event(), Clock()
    if not hold:
        held.set()

    def answer(request: ChatRequest) -> Any:
        asked = str(request.messages[-1]["content"])
        return ["Yes", held, f" to: {asked}"] if "flood" in asked else [f"Yes to: {asked}"]

    users = [1, 2, 3, *range(100, 100 + people)]
    async with running_bot(folder, *[answer] * 1_500, allowed_users=users, join_seconds=join_seconds) as bot:
        bot.gateway.limits = Limits(LimitsConfig(**limits), bot.store.sessions, clock=clock)
        yield Crowd(bot, clock, held)
        held.set()
        assert bot.service.violations == []


async def test_a_thousand_messages_in_a_minute_from_one_person(tmp_path: Path) -> None:
    """Thirty are accepted and answered, one notice explains the rejections, and other people are not affected."""
    async with crowd(tmp_path, hold=True) as harness:
        for number in range(1_000):
            await harness.writes(ANNA, f"flood {number}")
            harness.clock.now += MINUTE / 1_000
            if number % 250 == 100:
                await harness.writes(BOB, f"question {number}")
                await until(lambda: harness.said(f"Yes to: question {number}") == 1)  # noqa: B023 - awaited at once
        waiting = await harness.bot.store.inbox.waiting(harness.bot.service.platform)
        assert len(waiting) == 30
        assert len(harness.bot.receiver._recent._messages) == 30 + 4
        harness.held.set()
        await harness.is_done()
        anna, bob = await harness.transcript(Place("1")), await harness.transcript(Place("2"))
        assert [message.content for message in anna if message.role == "user"] == [
            f"flood {number}" for number in range(30)
        ]
        assert len([message for message in anna if message.role == "assistant"]) == 30
        assert len(bob) == 8
        assert harness.said(TOO_OFTEN) == 1 and harness.said(TOO_LONG) == 0

        harness.clock.now += MINUTE
        await harness.writes(ANNA, "sorry")
        await until(lambda: harness.said("Yes to: sorry") == 1)


async def test_fifty_people_at_once(tmp_path: Path) -> None:
    """Each is answered, in the order of arrival, and none is refused."""
    people = [Author(str(100 + number), f"Person {number}") for number in range(50)]
    async with crowd(tmp_path, people=50) as harness:

        async def writes(person: Author) -> None:
            for number in range(5):
                await harness.writes(person, f"{number} of {person.id}")

        await asyncio.gather(*map(writes, people))
        await harness.is_done()
        for person in people:
            said = [message.content for message in await harness.transcript(Place(person.id))]
            assert said[0::2] == [f"{number} of {person.id}" for number in range(5)]
            assert said[1::2] == [f"Yes to: {number} of {person.id}" for number in range(5)]
        assert harness.said(TOO_OFTEN) == harness.said(TOO_LONG) == 0
        await until(lambda: not harness.bot.gateway._queues)


async def test_a_queue_is_bounded_even_without_a_rate(tmp_path: Path) -> None:
    """While a model hangs, so many wait and no more; what was taken is answered when it goes on."""
    limits = {"messages_per_minute": None, "waiting_messages": 40}
    async with crowd(tmp_path, hold=True, **limits) as harness:
        for number in range(1_000):
            await harness.writes(ANNA, f"flood {number}")
        assert len(await harness.bot.store.inbox.waiting(harness.bot.service.platform)) == 40
        await until(lambda: harness.said(TOO_LONG) == 1)
        await harness.writes(BOB, "and me?")
        await until(lambda: harness.said("Yes to: and me?") == 1)
        harness.held.set()
        await harness.is_done()
        assert len(await harness.transcript(Place("1"))) == 80
        assert harness.said(TOO_LONG) == 1


async def test_stop_gets_through_a_flood(tmp_path: Path) -> None:
    """It is what helps against one: neither the rate nor the queue holds it up."""
    limits = {"messages_per_minute": 5, "waiting_messages": 5}
    async with crowd(tmp_path, hold=True, **limits) as harness:
        for number in range(20):
            await harness.writes(ANNA, f"flood {number}")
        await harness.bot.asked(1)
        await harness.writes(ANNA, "/stop")
        await until(lambda: len(harness.bot.llm.requests) == 2)
        assert harness.said(TOO_OFTEN) == 1


async def test_in_a_group_one_person_leaves_room_for_the_others(tmp_path: Path) -> None:
    """Neither their rate nor what waits of theirs is the group's."""
    limits = {"messages_per_minute": 30, "waiting_messages": 10}
    async with crowd(tmp_path, hold=True, **limits) as harness:
        for number in range(100):
            await harness.writes(ANNA, f"flood {number}", place=GROUP)
        assert len(await harness.bot.store.inbox.waiting(harness.bot.service.platform)) == 10
        await harness.writes(BOB, "and me?", place=GROUP)
        assert len(await harness.bot.store.inbox.waiting(harness.bot.service.platform)) == 11
        harness.held.set()
        await harness.is_done()
        answers = [
            message.content for message in await harness.transcript(GROUP) if message.role == "assistant"
        ]
        assert len(answers) == 11 and "and me?" in answers[-1]


async def test_many_people_in_a_group_are_bounded_together(tmp_path: Path) -> None:
    """A group is one conversation, however many write in it."""
    people = [Author(str(100 + number), f"Person {number}") for number in range(50)]
    async with crowd(tmp_path, hold=True, people=50, waiting_messages=10) as harness:
        for number in range(5):
            for person in people:
                await harness.writes(person, f"flood {number}", place=GROUP)
        assert len(await harness.bot.store.inbox.waiting(harness.bot.service.platform)) == 40


async def test_what_people_say_to_each_other_is_nobodys_limit(tmp_path: Path) -> None:
    """A lively group gets no notice, and a message to the bot is answered."""
    async with crowd(tmp_path, messages_per_minute=3) as harness:
        for number in range(200):
            await harness.writes(ANNA, f"chatter {number}", place=GROUP, addressed=False)
        await harness.writes(ANNA, "are you there?", place=GROUP)
        await until(lambda: any("are you there?" in text for text in harness.bot.service.texts()))
        assert harness.said(TOO_OFTEN) == 0


async def test_edits_are_no_way_around_it(tmp_path: Path) -> None:
    """Messages that name the bot only once they are changed count then."""
    async with crowd(tmp_path, messages_per_minute=3) as harness:
        for number in range(20):
            await harness.writes(ANNA, f"chatter {number}", place=GROUP, addressed=False)
        for _, message in harness.written:
            await harness.bot.edit(message, f"{message.text}!", addressed=True)
        await harness.is_done()
        assert len(harness.bot.llm.requests) == 3
        await until(lambda: harness.said(TOO_OFTEN) == 1)


@pytest.mark.parametrize("what", ["paste", "album"])
async def test_what_arrives_in_parts_is_one_message(tmp_path: Path, what: str) -> None:
    """A paste of fifty parts and an album of ten are taken whole, though fewer messages may come or wait."""
    async with crowd(tmp_path, join_seconds=1, messages_per_minute=2, waiting_messages=2) as harness:
        if what == "paste":
            for number in range(50):
                await harness.writes(ANNA, f"part {number} " + "x" * 2_000, maybe_unfinished=True)
        else:
            for number in range(10):
                picture = attachment(f"{number}.txt", b"text")
                await harness.writes(ANNA, f"part {number} ", album="a", attachments=(picture,))
        await until(lambda: len(harness.bot.llm.requests) == 1)
        (asked,) = [
            message.content for message in await harness.transcript(Place("1")) if message.role == "user"
        ]
        assert all(f"part {number} " in asked for number in range(10 if what == "album" else 50))
        assert harness.said(TOO_OFTEN) == harness.said(TOO_LONG) == 0


async def test_a_message_delivered_twice_counts_once(tmp_path: Path) -> None:
    """Services repeat what they are not sure of; that is not the person's doing."""
    async with crowd(tmp_path, messages_per_minute=3) as harness:
        for number in range(3):
            await harness.writes(ANNA, f"question {number}")
            _, message = harness.written[-1]
            for _ in range(10):
                await harness.bot.receiver.message(message)
        await harness.is_done()
        assert len(harness.bot.llm.requests) == 3 and harness.said(TOO_OFTEN) == 0


async def test_what_piled_up_in_an_absence_is_no_flood(tmp_path: Path) -> None:
    """Written over hours, delivered in a moment: the dates tell."""
    async with crowd(tmp_path) as harness:
        for number in range(60):
            await harness.writes(ANNA, f"question {number}", written_at=1e9 + 120.0 * number)
        await harness.is_done()
        assert len(harness.bot.llm.requests) == 60 and harness.said(TOO_OFTEN) == 0


async def test_whoever_sent_a_file_is_the_one_who_pays_for_it(tmp_path: Path) -> None:
    """What a recording costs is spent before its turn begins; in a group it is not the group's."""
    payers: list[str] = []

    async def read(most: int) -> bytes:
        payers.append(spender())
        return b"text"

    async with crowd(tmp_path) as harness:
        for author in (ANNA, BOB):
            file = Attachment("a.txt", "text/plain", "document", 4, read)
            await harness.writes(author, "look", place=GROUP, attachments=(file,))
        await harness.is_done()
    assert payers == ["memory:1", "memory:2"]


async def test_a_full_disk_uses_up_nothing(tmp_path: Path) -> None:
    """A service repeats what could not be kept, as often as it likes; once there is room, it is taken."""
    async with restartable_bot(tmp_path / "state.db", ChatService(), "Taken.") as bot:
        bot.gateway.limits = Limits(LimitsConfig(messages_per_minute=2), bot.store.sessions)
        await bot.store.database.write(_only_so_many_pages, 1, fence=None)
        long = ChatMessage("1", Place("1"), ANNA, "now " * 50_000)
        for _ in range(10):
            with pytest.raises(StoreFull):
                await bot.receiver.message(long)
        await bot.store.database.write(_only_so_many_pages, 2**30, fence=None)
        await bot.receiver.message(long)
        await until(lambda: len(bot.llm.requests) == 1)
        assert not any(TOO_OFTEN in text for text in bot.shown)


def _only_so_many_pages(connection: sqlite3.Connection, pages: int) -> None:
    connection.execute(f"PRAGMA max_page_count = {pages}")
