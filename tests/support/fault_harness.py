"""Harness: a chat bot on a store, a model and a chat service that the test makes fail."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agent.events import TurnDone, TurnEvent, TurnFailed
from agent.llm import LLMClient
from agent.store import Address, Conversation
from agent.tool import Tool
from gateway.core.events import NULL_OBSERVER, Observer
from gateway.store.sqlite.store import SqliteStore
from gateway.types import Author, ChatMessage, Place
from tests.support.agents import make_agent
from tests.support.chat_service import ChatService
from tests.support.gateways import make_gateway
from tests.support.receiver_harness import make_receiver

ADA = Author("1", "Ada")
HERE = Place("1")


class FaultHarness:
    def __init__(
        self,
        llm: LLMClient,
        store: SqliteStore,
        service: ChatService,
        tools: Sequence[Tool],
        workspaces: Path,
        observer: Observer = NULL_OBSERVER,
    ) -> None:
        self.store = store
        self.service = service
        agent = make_agent(llm, store.sessions, tools, max_iterations=4)
        self.gateway = make_gateway(agent, store, workspaces, observer=observer, suspect_delay=0.01)
        self.receiver = make_receiver(self.gateway, service, {"allowed_users": [1]})
        self._numbers = itertools.count(100)

    async def conversation(self) -> Conversation:
        address = Address(self.service.platform, HERE.chat_id)
        return await self.store.sessions.open_conversation(
            address, person=f"{self.service.platform}:{ADA.id}"
        )

    def written(self, text: str) -> ChatMessage:
        """Make a message; the test delivers it once or several times."""
        return ChatMessage(str(next(self._numbers)), HERE, ADA, text)

    async def turn(self, text: str) -> list[TurnEvent]:
        """Send a message and return the events of its turn."""
        conversation = await self.conversation()
        last = self.gateway.hub.last_number(conversation.id)
        with self.gateway.hub.watch(conversation.id, after=last) as watcher:
            await self.receiver.message(self.written(text))
            events: list[TurnEvent] = []
            async with asyncio.timeout(60):
                async for envelope in watcher:
                    events.append(envelope.event)
                    if isinstance(envelope.event, TurnDone | TurnFailed):
                        return events
        raise AssertionError("the event stream ended before the turn")

    async def said(self) -> list[tuple[str, str]]:
        transcript = await self.store.sessions.transcript((await self.conversation()).id)
        return [(message.role, message.content) for message in transcript]

    async def is_idle(self) -> bool:
        """Return whether every message is answered and delivered and none is parked."""
        platform = self.service.platform
        left = (await self.store.inbox.waiting(platform), await self.store.inbox.parked())
        return left == ([], []) and await self.store.outbox.undelivered(platform) == []

    async def close(self) -> None:
        """Stop in the order of `hermes run`: gateway first, then delivery."""
        await self.gateway.close()
        await self.receiver.close()


@asynccontextmanager
async def open_harness(
    llm: LLMClient,
    *,
    store: SqliteStore,
    service: ChatService | None = None,
    tools: Sequence[Tool] = (),
    workspaces: Path,
    observer: Observer = NULL_OBSERVER,
) -> AsyncIterator[FaultHarness]:
    await store.leases.expire_all()
    harness = FaultHarness(llm, store, service or ChatService(limit=4000), tools, workspaces, observer)
    await harness.receiver.open()
    try:
        yield harness
    finally:
        await harness.close()
