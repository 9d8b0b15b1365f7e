"""A bot on an in-memory chat service, run by the gateway of the dashboard."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agent.llm import ChatRequest
from agent.testing import Step
from gateway.types import Author, ChatMessage, Place
from tests.support.chat_service import ChatService
from tests.support.dashboard_harness import DashboardHarness
from tests.support.receiver_harness import make_receiver

ANNA, STRANGER = Author("1", "Anna"), Author("7", "Zoe")


class Bot:
    def __init__(self, dashboard: DashboardHarness, **settings: Any) -> None:
        self.service = ChatService()
        access = {"allowed_users": [1], **settings}
        self.receiver = make_receiver(dashboard.gateway, self.service, access, join_seconds=0.01)
        self._ids = itertools.count(1)

    async def hears(self, text: str, author: Author = ANNA) -> ChatMessage:
        message = ChatMessage(str(next(self._ids)), Place(author.id), author, text)
        await self.receiver.message(message)
        return message

    async def shows(self, text: str) -> None:
        await self.service.until(lambda: any(text in shown for shown in self.service.texts()))


@asynccontextmanager
async def running_bot(dashboard: DashboardHarness, **settings: Any) -> AsyncIterator[Bot]:
    """Run a connected bot."""
    bot = Bot(dashboard, **settings)
    await bot.receiver.open()
    yield bot
    await dashboard.gateway.close()
    await bot.receiver.close()


def breaking_down(times: int) -> list[Step]:
    """Script a model client that crashes; a message is parked after three crashes."""

    def broken(request: ChatRequest) -> Step:
        raise ZeroDivisionError("a bug")

    return [broken] * times
