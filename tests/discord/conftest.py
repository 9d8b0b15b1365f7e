"""A loopback Discord and a bot that is connected to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.discord.bot import Bot, Desk, running
from tests.worlds.discord import DiscordWorld, Person


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
def desk(bot: Bot) -> Desk:
    return bot.desk


@pytest.fixture
def ada(world: DiscordWorld) -> Person:
    return world.person("Ada")


@pytest.fixture
def ben(world: DiscordWorld) -> Person:
    return world.person("Ben")
