"""A session begins once it is known where to go on, and nothing that is newer gets ahead of that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from agent.errors import StoreFull
from tests.fakes.discord.server import FakeDiscord, Fault, Person
from tests.support.discord_harness import PATIENCE, Bot, place, running


def event_tasks() -> set[asyncio.Task[object]]:
    """Each event is a task of the library's."""
    return {task for task in asyncio.all_tasks() if task.get_name().startswith("discord.py: on_")}


@pytest.fixture
async def deaf(server: FakeDiscord, ada: Person) -> AsyncIterator[Bot]:
    """Its store refuses. There is something that it has missed, and its menu is known from before."""
    async with running(Bot(server)):
        await server.until(lambda: "stop" in server.commands.names())
    first = await ada.says("kept", channel=server.general)
    await ada.says("missed", channel=server.general)
    bot = Bot(server)
    bot.receiver.known = {place(server.general): str(first.id)}
    bot.receiver.since = time.time() - 3600
    bot.receiver.opens = False
    async with running(bot):
        yield bot


async def test_a_store_that_refuses_for_a_while(deaf: Bot, ada: Person, server: FakeDiscord) -> None:
    """Health says so. Once it is mended all is heard, in order."""
    assert deaf.platform.health.state == "down"
    assert str(StoreFull()) in deaf.platform.health.detail
    await ada.says("now", channel=server.general)
    deaf.receiver.opens = True
    assert [(await deaf.receiver.next_message()).text for _ in range(2)] == ["missed", "now"]
    await deaf.becomes("up")


async def test_health_after_an_interruption_meanwhile(deaf: Bot, ada: Person, server: FakeDiscord) -> None:
    """The connection is mended, the store is not."""
    server.gateway.abort()
    await server.gateway.resumed()
    await ada.says("/stop")
    assert (await deaf.receiver.next_message()).text == "/stop", "the connection is there again"
    assert deaf.platform.health.state == "down"
    deaf.receiver.opens = True
    await deaf.becomes("up")


async def test_commands_do_not_get_ahead_of_what_was_missed(
    deaf: Bot, ada: Person, server: FakeDiscord
) -> None:
    """But for those that wait for nobody, and they are no reason to look no further back."""
    await ada.says("/stop", channel=server.general)
    assert (await deaf.receiver.next_message()).text == "/stop"
    await ada.uses("stop", channel=server.general)
    assert (await deaf.receiver.next_message()).text == "/stop"
    used = await ada.uses("reset", channel=server.general)
    await used.acknowledged()
    deaf.receiver.opens = True
    texts = [(await deaf.receiver.next_message()).text for _ in range(3)]
    assert texts == ["missed", "/stop", "/reset"], "the receiver knows what it has seen before"
    assert (await used.reply()).content == "`/reset`"


async def test_a_bug_at_the_beginning_makes_nobody_deaf(server: FakeDiscord, ada: Person) -> None:
    """What was missed is lost then, what comes is not."""
    bot = Bot(server)
    bot.receiver.crashes_on = "open"
    async with running(bot):
        await ada.says("hello")
        assert (await bot.receiver.next_message()).text == "hello"
        assert bot.platform.health.state == "up"


async def test_a_stop_before_the_beginning_leaves_nobody_waiting(server: FakeDiscord, ada: Person) -> None:
    """Neither those who wait for the store nor those who wait for these."""
    async with running(Bot(server)):
        await server.until(lambda: "reset" in server.commands.names())
    bot = Bot(server)
    bot.receiver.opens = False
    async with running(bot):
        await ada.says("hello")
        await (await ada.uses("reset")).acknowledged()
        waiting = event_tasks()
        names = {task.get_name().removeprefix("discord.py: ") for task in waiting}
        assert {"on_connect", "on_message", "on_interaction"} <= names
    _, late = await asyncio.wait(waiting, timeout=0.3)
    assert not late
    assert bot.receiver.is_idle


async def test_what_stands_in_line_outlives_its_connection(server: FakeDiscord, ada: Person) -> None:
    """It was delivered, and a command is never found again. Nobody waits to answer over a connection that is gone."""
    async with running(Bot(server, resume_seconds=0.1)) as bot:
        await server.until(lambda: "reset" in server.commands.names())
        bot.receiver.gate.clear()
        await ada.says("first")
        await bot.receiver.next_message()
        await (await ada.uses("reset")).acknowledged()
        [answering] = [task for task in event_tasks() if task.get_name() == "discord.py: on_interaction"]
        server.gateway.refuse_connections()
        server.gateway.abort()
        done, _ = await asyncio.wait({answering}, timeout=PATIENCE)
        assert done
        bot.receiver.gate.set()
        assert (await bot.receiver.next_message()).text == "/reset"


async def test_a_connection_that_ends_before_it_is_known_what_was_missed(
    server: FakeDiscord, ada: Person, ben: Person
) -> None:
    """What stands in line behind that is not kept: once it were, nobody would look for the older ones again."""
    first = await ada.says("kept")
    await ada.says("missed")
    bot = Bot(server, resume_seconds=0.1)
    bot.receiver.known = {place(ada.dm()): str(first.id)}
    bot.receiver.since = time.time() - 3600
    reading = server.fail_next("get_messages", Fault.hang())
    async with running(bot):
        await reading.arrived()
        await ada.says("now")
        await ben.says("from elsewhere")
        assert (await bot.receiver.next_message()).text == "from elsewhere", "the line is complete"
        server.gateway.refuse_connections()
        server.gateway.abort()
        await server.until(lambda: len(server.calls_to("get_me")) > 1)
        server.gateway.refuse_connections(False)
        assert [(await bot.receiver.next_message()).text for _ in range(2)] == ["missed", "now"]


async def test_nobody_gets_ahead_in_the_moment_in_which_the_waiting_ends(
    deaf: Bot, server: FakeDiscord
) -> None:
    """A dozen people go on talking all the while; what each of them said first comes first."""
    people = [server.person(f"Person {number}") for number in range(12)]
    said = 0
    deaf.receiver.opens = True
    while deaf.receiver.is_idle:
        for person in people:
            await person.says(str(said))
        said += 1
    heard: dict[str, list[int]] = {}
    for _ in range(said * len(people) + 1):
        message = await deaf.receiver.next_message()
        if message.text != "missed":
            heard.setdefault(message.author.id, []).append(int(message.text))
    assert all(numbers == list(range(said)) for numbers in heard.values())
