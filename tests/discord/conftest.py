"""A loopback Discord and a bot that is connected to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from discord.backoff import ExponentialBackoff

from tests.discord.bot import Bot, RecordingReceiver, running
from tests.worlds.discord import DiscordWorld, Person


@pytest.fixture(autouse=True)
def a_short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library waits for up to two seconds, as chance has it, before it connects again; nothing depends on that."""
    monkeypatch.setattr(ExponentialBackoff, "delay", lambda backoff: 0.05)


@pytest.fixture
async def world() -> AsyncIterator[DiscordWorld]:
    async with DiscordWorld() as world:
        yield world


@pytest.fixture
async def bot(world: DiscordWorld) -> AsyncIterator[Bot]:
    async with running(Bot(world)) as bot:
        assert bot.platform.health.state == "up", bot.platform.health
        yield bot


@pytest.fixture
def receiver(bot: Bot) -> RecordingReceiver:
    return bot.receiver


@pytest.fixture
def ada(world: DiscordWorld) -> Person:
    return world.person("Ada")


@pytest.fixture
def ben(world: DiscordWorld) -> Person:
    return world.person("Ben")
