"""A loopback Discord and a bot that is connected to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from discord.backoff import ExponentialBackoff

from tests.fakes.discord.server import FakeDiscord, Person
from tests.support.discord_harness import Bot, RecordingReceiver, running


@pytest.fixture(autouse=True)
def a_short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library waits for up to two seconds, as chance has it, before it connects again; nothing depends on that."""
    monkeypatch.setattr(ExponentialBackoff, "delay", lambda backoff: 0.05)


@pytest.fixture
async def world() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord() as world:
        yield world


@pytest.fixture
async def bot(world: FakeDiscord) -> AsyncIterator[Bot]:
    async with running(Bot(world)) as bot:
        assert bot.platform.health.state == "up", bot.platform.health
        yield bot


@pytest.fixture
def receiver(bot: Bot) -> RecordingReceiver:
    return bot.receiver


@pytest.fixture
def ada(world: FakeDiscord) -> Person:
    return world.person("Ada")


@pytest.fixture
def ben(world: FakeDiscord) -> Person:
    return world.person("Ben")
