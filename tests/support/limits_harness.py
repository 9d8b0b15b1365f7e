"""People who talk to the real gateway, with a model that names its price, and a calendar that the test moves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.context.memory_flush import MemoryFlush
from agent.context_compressor import ContextCompressor
from agent.events import Notice, TurnDone, TurnEvent, TurnFailed
from agent.llm import Completion, LLMClient, Usage
from agent.llm.guards import budget_guard
from agent.llm.retry import RetryingLLM
from agent.llm.selection import ModelSelector
from agent.messages import ToolCall
from agent.store import Address
from agent.testing import ScriptedLLM
from agent.tool import Tool, ToolContext, tool
from agent.tools.memory import memory
from gateway.config.schema import LimitsConfig
from gateway.core.gateway import Gateway
from gateway.limits import Limits
from gateway.store.sqlite.store import SqliteStore
from gateway.types import InboundMessage
from tests.support.agents import make_agent
from tests.support.gateways import make_gateway
from tests.support.stores import temporary_store

WINDOW = 4_000
ANNA, BOB = "telegram:1", "telegram:2"
GROUP = Address("telegram", "-100")
PATIENCE = 20


@tool()
async def look(ctx: ToolContext) -> str:
    """Looks."""
    return "seen"


def costs(usd: float | None, text: str = "Fine.", *, tokens: int = 100, looks: bool = False) -> Completion:
    calls = (ToolCall("c1", "look", "{}"),) if looks else ()
    usage = Usage(tokens, 10, cost_usd=usd)
    return Completion(
        "" if looks else text, calls, "tool_calls" if looks else "stop", usage, "scripted/model"
    )


@dataclass
class BudgetHarness:
    gateway: Gateway
    store: SqliteStore
    limits: Limits
    llm: ScriptedLLM
    helper: ScriptedLLM
    """The model that writes summaries."""
    other: ScriptedLLM
    """Another model to switch to."""
    ahead: list[float] = field(default_factory=lambda: [0.0])
    """Seconds that the calendar is ahead of real time."""

    async def say(
        self, text: str, person: str = ANNA, address: Address | None = None, **more: Any
    ) -> list[TurnEvent]:
        """Everything that comes of it, to the end of its turn."""
        conversation_id, after = await self.send(text, person, address, **more)
        return await self.until_over(conversation_id, after)

    async def send(
        self, text: str, person: str = ANNA, address: Address | None = None, **more: Any
    ) -> tuple[str, int]:
        where = address or Address("telegram", person)
        scope = person if where != GROUP else "telegram:group:-100"
        conversation = await self.store.sessions.open_conversation(where, person=scope)
        after = self.gateway.hub.last_number(conversation.id)
        inbound = InboundMessage(where, scope, text, author=person, **more)
        await self.gateway.receive(inbound)
        return conversation.id, after

    async def until_over(self, conversation_id: str, after: int) -> list[TurnEvent]:
        events: list[TurnEvent] = []
        with self.gateway.hub.watch(conversation_id, after=after) as watcher:
            while not events or not isinstance(events[-1], TurnDone | TurnFailed):
                envelope = await asyncio.wait_for(anext(watcher), PATIENCE)
                if envelope.number > after:
                    events.append(envelope.event)
        return events

    async def spent(self, person: str | None = None) -> float:
        return round((await self.store.sessions.spent(spender=person)).usd, 6)


@asynccontextmanager
async def open_budget(
    folder: Path, *steps: Any, tools: Sequence[Tool] = (look,), flush: bool = False, **limits: Any
) -> AsyncIterator[BudgetHarness]:
    """`limits` as in the configuration."""
    ahead = [0.0]
    store, llm = await temporary_store(), ScriptedLLM(list(steps), context_length=WINDOW)
    helper = ScriptedLLM(model="scripted/helper", context_length=WINDOW)
    other = ScriptedLLM(model="scripted/other", context_length=WINDOW)
    config = {"messages_per_minute": None, "owner_messages_per_minute": None, **limits}
    bounds = Limits(LimitsConfig(**config), store.sessions, calendar=lambda: time.time() + ahead[0])

    def budgeted(client: LLMClient) -> LLMClient:
        return RetryingLLM([client], attempts=1, guards=[budget_guard(bounds.budget)])

    async with AsyncExitStack() as stack:
        models = ModelSelector(budgeted(llm), store.sessions, build=lambda name: budgeted(other))
        agent = make_agent(
            llm,
            store.sessions,
            list(tools),
            engine=lambda: ContextCompressor(WINDOW, protect_last_n=2),
            auxiliary=budgeted(helper),
            background_at=0.8,
            flush_memory=MemoryFlush(models, memory) if flush else None,
            models=models,
        )
        stack.push_async_callback(agent.close)
        gateway = make_gateway(agent, store, folder, limits=bounds)
        stack.push_async_callback(gateway.close)
        yield BudgetHarness(gateway, store, bounds, llm, helper, other, ahead)


def text_of(event: TurnEvent) -> str:
    match event:
        case Notice(text) | TurnDone(text) | TurnFailed(text):
            return text
    return ""
