"""The chat platforms with a model that takes no time, beside a bare echo bot on the same library.

Each bot runs in its own process (`chat_bots.py`) and talks over sockets to a loopback service in this process. A delay
begins when a person's message reaches the service and ends when the call that shows the answer does. Library and
service have a share in it. The echo bot pays the same share, so the gateway added what is above the echo bot's delay.
Delays are measured at half of the gateway's own pace, the same for both bots: at full pace they would measure the
length of the queue. CPU is that of the bot's process alone.

Opening the chats has a time limit: a slow or busy machine opens fewer than a thousand, and the table says how many.
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from bench.chat_bots import Child, running
from bench.measure import Row, p50_and_p99
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.telegram.server import FakeTelegram
from tests.support.watch import Watch

QUESTION = "How will the weather be tomorrow?"
SOME, MANY = 100, 1_000
"""Active chats: each has written a moment ago."""
ALONE, SAMPLE = 40, 150
"""Messages behind the figures of one chat and of several, if the seconds below are enough for them."""
OPENING, RUNNING, SCATTERED = 20.0, 1.5, 3.0
IN_FLIGHT = 16
"""Messages without an answer while the pace is measured: enough to keep a bot busy, too few to swamp it."""
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the bot to the service."""

    chat_id: int
    at: float
    """When the call arrived, by the service's clock."""
    shows_text: bool
    """Whether a person sees a new message by it."""
    polls: bool = False


class Writer(Protocol):
    async def says(self, text: str) -> object: ...


@dataclass(frozen=True, slots=True)
class Service:
    """A loopback service, with people in direct chats with the bot."""

    platforms: dict[str, Any]
    """The section of the configuration."""
    people: Sequence[Writer]
    chats: Sequence[int]
    """The ids by which calls name the chats, in the order of `people`."""
    watch: Watch
    now: Callable[[], float]
    calls: Callable[[int], Sequence[Call]]
    """Returns the calls from this number on."""


@asynccontextmanager
async def telegram(count: int) -> AsyncIterator[Service]:
    async with FakeTelegram() as server:
        people = [server.person(first_name=f"Person {number}") for number in range(count)]
        chats = [person.id for person in people]
        settings = {"token": server.token, "base_url": server.url, "allowed_users": chats}

        def calls(since: int) -> list[Call]:
            return [
                Call(call.chat_id, call.at, call.method == "sendMessage", polls=call.method == "getUpdates")
                for call in server.calls[since:]
            ]

        yield Service({"telegram": settings}, people, chats, server.watch, time.monotonic, calls)


@asynccontextmanager
async def discord(count: int) -> AsyncIterator[Service]:
    async with FakeDiscord() as server:
        people = [server.person(f"Person {number}") for number in range(count)]
        settings = {
            "token": server.token,
            "api_base": server.api_base,
            "gateway_url": server.gateway_url,
            "allowed_users": [person.id for person in people],
        }

        def calls(since: int) -> list[Call]:
            return [
                Call(int(call.ids.get("channel_id", 0)), call.at, call.verb == "send_message")
                for call in server.calls[since:]
            ]

        chats = [person.dm().id for person in people]
        yield Service({"discord": settings}, people, chats, server.state.watch, server.clock.now, calls)


@dataclass(frozen=True, slots=True)
class Pace:
    """Figures of a bot that gets messages as fast as it answers them."""

    messages: int
    seconds: float
    cpu_seconds: float
    calls: int
    """Calls to the service, without polling."""

    @property
    def per_second(self) -> float:
        return self.messages / self.seconds

    @property
    def cpu(self) -> float:
        """CPU seconds of one message."""
        return self.cpu_seconds / self.messages


@dataclass(frozen=True, slots=True)
class Crowd:
    """Figures of a bot with many active chats; delays in seconds."""

    chats: int
    pace: Pace
    delays: Sequence[float]


@dataclass(frozen=True, slots=True)
class Figures:
    """All figures of one bot."""

    alone: Sequence[float]
    """Delays while only one person writes."""
    calls_alone: float
    """Calls to the service for one answer, then."""
    some: Crowd
    many: Crowd


class People:
    """Writes messages to the bot and measures how long the answers take."""

    def __init__(self, service: Service) -> None:
        self.delays: list[float] = []
        self.calls = 0
        self._service = service
        self._seen = 0
        self._asked: dict[int, float] = {}
        """By chat: when the message was written that has no answer yet."""

    async def write(self, person: int) -> None:
        self._look()  # or an answer would be taken for that of a later message
        self._asked[self._service.chats[person]] = self._service.now()
        await self._service.people[person].says(QUESTION)

    async def wait(self, *, at_most: int = 0) -> None:
        """Wait until at most this many messages are without an answer."""

        def is_done() -> bool:
            self._look()
            return len(self._asked) <= at_most

        await asyncio.wait_for(asyncio.wrap_future(self._service.watch.until(is_done)), PATIENCE)

    def forget(self) -> None:
        """Begin new figures."""
        self.delays, self.calls = [], 0

    def _look(self) -> None:
        """Read each call once: a condition for each of a thousand people would cost more than the bots do."""
        for call in self._service.calls(self._seen):
            self._seen += 1
            self.calls += not call.polls
            if call.shows_text and (asked := self._asked.pop(call.chat_id, None)):
                self.delays.append(call.at - asked)


def rows() -> list[Row]:
    return [*asyncio.run(_compared("Telegram", telegram)), *asyncio.run(_compared("Discord", discord))]


async def _compared(name: str, service: Callable[[int], AbstractAsyncContextManager[Service]]) -> list[Row]:
    async with service(MANY) as server, running("gateway", server.platforms) as bot:
        ours = await _measure(server, bot)
    async with service(MANY) as server, running("echo", server.platforms) as bot:
        echo = await _measure(server, bot, like=ours)
    return _rows(name, ours, echo)


async def _measure(service: Service, bot: Child, *, like: Figures | None = None) -> Figures:
    """Measure a bot. The echo bot gets the same load as the gateway had, whose figures are `like`."""
    people = People(service)
    await _one_person(people, times=5)  # for imports and connections
    alone = await _one_person(people, times=ALONE)
    calls_alone = people.calls / ALONE
    some = await _crowd(people, bot, SOME, like.some if like else None)
    many = await _crowd(people, bot, MANY, like.many if like else None)
    return Figures(alone, calls_alone, some, many)


async def _crowd(people: People, bot: Child, chats: int, like: Crowd | None) -> Crowd:
    if like is None:
        # The first message of a chat opens its conversation.
        chats = (await _at_full_pace(people, bot, range(chats), seconds=OPENING)).messages
    who = [number * max(1, chats // SAMPLE) % chats for number in range(SAMPLE)]
    pace = await _at_full_pace(people, bot, who, seconds=RUNNING)
    half = (like.pace if like else pace).per_second / 2
    seconds = min(SCATTERED, SAMPLE / half)
    return Crowd(chats, pace, await _scattered(people, who[: math.ceil(half * seconds)], seconds=seconds))


async def _one_person(people: People, times: int) -> Sequence[float]:
    people.forget()
    for _ in range(times):
        await people.write(0)
        await people.wait()
        await asyncio.sleep(0.02)  # until the bot has finished its work after the answer
    return people.delays


async def _scattered(people: People, who: Sequence[int], *, seconds: float) -> Sequence[float]:
    """Let each person write at a random moment; the moments are the same for each bot."""
    people.forget()
    chance = random.Random(7)
    moments = sorted(chance.uniform(0, seconds) for _ in who)
    began = time.perf_counter()
    for person, moment in zip(who, moments, strict=True):
        await asyncio.sleep(began + moment - time.perf_counter())
        await people.write(person)
    await people.wait()
    return people.delays


async def _at_full_pace(people: People, bot: Child, who: Sequence[int], *, seconds: float) -> Pace:
    """Let as many people write as there is time for."""
    people.forget()
    cpu, began, messages = await bot.cpu_seconds(), time.perf_counter(), 0
    for person in who:
        await people.wait(at_most=IN_FLIGHT - 1)
        if time.perf_counter() - began > seconds:
            break
        await people.write(person)
        messages += 1
    await people.wait()
    taken = time.perf_counter() - began
    return Pace(messages, taken, await bot.cpu_seconds() - cpu, people.calls)


def _rows(name: str, ours: Figures, echo: Figures) -> list[Row]:
    some, many, floor = ours.some.pace, ours.many.pace, echo.many.pace
    span = f"from {ours.some.chats} chats to {ours.many.chats:,}"
    return [
        (
            f"{name}: messages per second, {_chats(ours.many.chats)}",
            f"{many.per_second:,.0f}, echo bot {floor.per_second:,.0f}: {many.per_second / floor.per_second:.2f}x",
            "-",
            f"{many.per_second / some.per_second:.1f}x {span}",
        ),
        (
            "... CPU of one message",
            f"{_ms(many.cpu)} ms, echo bot {_ms(floor.cpu)} ms: {many.cpu / floor.cpu:.1f}x",
            "<= 4x",
            f"{many.cpu / some.cpu:.1f}x {span}",
        ),
        (
            "... calls to the service for one answer",
            f"{ours.calls_alone:.2f}, at full pace {many.calls / many.messages:.2f}",
            "1",
            "length of the answer; typing if it is late",
        ),
        _delay_row("1 active chat", ours.alone, echo.alone, "one person writes"),
        *(
            _delay_row(_chats(crowd.chats), crowd.delays, floor.delays, _growth(ours.alone, crowd.delays))
            for crowd, floor in ((ours.some, echo.some), (ours.many, echo.many))
        ),
    ]


def _delay_row(chats: str, ours: Sequence[float], echo: Sequence[float], grows: str) -> Row:
    (p50, p99), (echo50, echo99) = p50_and_p99(ours), p50_and_p99(echo)
    return (
        f"... delay added, {chats}",
        f"p50 {_ms(p50 - echo50)}, p99 {_ms(p99 - echo99)} ms over {_ms(echo50)}, {_ms(echo99)}",
        "p50 < 20 ms",
        grows,
    )


def _chats(count: int) -> str:
    return f"{count:,} active chats"


def _growth(alone: Sequence[float], crowd: Sequence[float]) -> str:
    return f"{statistics.median(crowd) / statistics.median(alone):.1f}x of one chat alone"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f}"
