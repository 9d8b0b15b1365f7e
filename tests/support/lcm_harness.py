"""Harness: a gateway with the lcm engine in the test process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.events import TurnDone, TurnEvent
from agent.llm import Completion, Usage
from agent.store import Address
from agent.testing import ScriptedLLM
from gateway.commands import CommandContext
from gateway.core.gateway import Gateway
from gateway.limits import Limits
from gateway.store.sqlite.store import SqliteStore
from gateway.types import OWNER, InboundMessage, parse_command
from plugins.context_engine.lcm import LosslessContext
from tests.support.agents import make_agent
from tests.support.gateways import COMMANDS, make_gateway

WINDOW = 8_000


@dataclass
class Chat:
    gateway: Gateway
    llm: ScriptedLLM
    room: str = "room"
    after: int = 0

    async def say(self, text: str) -> list[TurnEvent]:
        inbound = InboundMessage(Address("web", self.room), OWNER, text)
        conversation_id = (await self.gateway.receive(inbound)).id
        events: list[TurnEvent] = []
        with self.gateway.hub.watch(conversation_id, after=self.after) as watcher:
            async for envelope in watcher:
                self.after = envelope.number
                events.append(envelope.event)
                if isinstance(envelope.event, TurnDone):
                    return events
        raise AssertionError("the stream ended")

    async def command(self, text: str) -> str:
        """Run at once, as those that overtake are."""
        store, agent = self.gateway.store, self.gateway.agent
        conversation = await store.sessions.open_conversation(Address("web", self.room), person=OWNER)
        context = CommandContext(
            conversation,
            store.sessions,
            agent,
            COMMANDS,
            lambda _: False,
            author=OWNER,
            is_admin=True,
            budget=Limits.none(store.sessions).budget,
        )
        call = parse_command(text)
        assert call is not None
        return await COMMANDS.run(call, context)

    async def talk(self, turns: int, word: str, tokens: int) -> list[TurnEvent]:
        """Turns of about 250 tokens each. The last one is said to fill so much of the window."""
        events: list[TurnEvent] = []
        for number in range(turns):
            used = tokens if number == turns - 1 else 500
            self.llm.then(Completion(f"Answer {number}. " + f"{word} " * 120, usage=Usage(used, 10)))
            events += await self.say(f"Question {number}. " + f"{word} " * 120)
        return events


@asynccontextmanager
async def opened(home: Path, **engine: Any) -> AsyncIterator[Chat]:
    """`engine`: how it is made."""
    store, llm = await SqliteStore.open(home / "state.db"), ScriptedLLM(context_length=WINDOW)
    agent = make_agent(
        llm,
        store.sessions,
        engine=lambda: LosslessContext(WINDOW, hermes_home=str(home), **engine),
        background_at=0.8,
        home=home,
    )
    gateway = make_gateway(agent, store, home)
    try:
        yield Chat(gateway, llm)
    finally:
        await gateway.close()
        await store.close()
