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
async def server() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord() as server:
        yield server


@pytest.fixture
async def bot(server: FakeDiscord) -> AsyncIterator[Bot]:
    async with running(Bot(server)) as bot:
        assert bot.platform.health.state == "up", bot.platform.health
        yield bot


@pytest.fixture
def receiver(bot: Bot) -> RecordingReceiver:
    return bot.receiver


@pytest.fixture
def ada(server: FakeDiscord) -> Person:
    return server.person("Ada")


@pytest.fixture
def ben(server: FakeDiscord) -> Person:
    return server.person("Ben")
