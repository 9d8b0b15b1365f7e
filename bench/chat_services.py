"""The loopback services, with people in direct chats with the bot."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from tests.fakes.discord.server import FakeDiscord
from tests.fakes.telegram.server import FakeTelegram
from tests.support.watch import Watch


@dataclass(frozen=True, slots=True)
class Call:
    """Something that the bot asked the service to do."""

    chat_id: int
    at: float
    """When it arrived, by the service's clock."""
    shows_text: bool
    """A person sees a new message by it."""
    polls: bool = False
    """It only asks whether there is something new."""


class Service(Protocol):
    """`chats` are the numbers by which calls name the people's chats, in the order of the people."""

    name: str
    platforms: dict[str, Any]
    watch: Watch
    chats: Sequence[int]
    now: Callable[[], float]

    async def says(self, person: int, text: str) -> None: ...

    def calls(self, since: int) -> Sequence[Call]: ...


class Telegram:
    name = "Telegram"
    now = staticmethod(time.monotonic)

    def __init__(self, world: FakeTelegram, people: int) -> None:
        self._world = world
        self._people = [world.person(first_name=f"Person {number}") for number in range(people)]
        self.watch = world.watch
        self.chats: Sequence[int] = [person.id for person in self._people]
        settings = {"token": world.token, "base_url": world.url, "allowed_users": self.chats}
        self.platforms = {"telegram": settings}

    @classmethod
    @asynccontextmanager
    async def open(cls, people: int) -> AsyncIterator[Service]:
        async with FakeTelegram() as world:
            yield cls(world, people)

    async def says(self, person: int, text: str) -> None:
        await self._people[person].says(text)

    def calls(self, since: int) -> Sequence[Call]:
        return [
            Call(call.chat_id, call.at, call.method == "sendMessage", polls=call.method == "getUpdates")
            for call in self._world.calls[since:]
        ]


class Discord:
    name = "Discord"

    def __init__(self, world: FakeDiscord, people: int) -> None:
        self._world = world
        self._people = [world.person(f"Person {number}") for number in range(people)]
        self.watch = world.scene.watch
        self.now = world.clock.now
        self.chats: Sequence[int] = [person.dm().id for person in self._people]
        self.platforms = {
            "discord": {
                "token": world.token,
                "api_base": world.api_base,
                "gateway_url": world.gateway_url,
                "allowed_users": [person.id for person in self._people],
            }
        }

    @classmethod
    @asynccontextmanager
    async def open(cls, people: int) -> AsyncIterator[Service]:
        async with FakeDiscord() as world:
            yield cls(world, people)

    async def says(self, person: int, text: str) -> None:
        await self._people[person].says(text)

    def calls(self, since: int) -> Sequence[Call]:
        return [
            Call(int(call.ids.get("channel_id", 0)), call.at, call.verb == "send_message")
            for call in self._world.calls[since:]
        ]
