"""An accepted message is stored, also if its turn fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.context_compressor import ContextCompressor
from agent.events import TextDelta, TurnDone, TurnEvent, TurnFailed, TurnStarted
from agent.messages import ChatDict, ToolCall
from agent.store import Address
from agent.testing import ScriptedLLM
from agent.tool import ToolContext, tool
from gateway.core.gateway import Gateway
from gateway.core.turns import Busy
from gateway.types import OWNER, InboundMessage
from tests.support.agents import make_agent
from tests.support.gateways import make_gateway
from tests.support.stores import temporary_store

WINDOW = 4_000


class Holding(ContextCompressor):
    """Compresses before every call, and blocks until it is released."""

    entered = threading.Event()
    release = threading.Event()

    def should_compress_preflight(self, messages: list[ChatDict]) -> bool:
        return True

    def compress(
        self, messages: list[ChatDict], current_tokens: int | None = None, focus_topic: str | None = None
    ) -> list[ChatDict]:
        self.entered.set()
        assert self.release.wait(30)
        return messages


class Broken(ContextCompressor):
    """Cannot even begin."""

    def on_session_start(self, session_id: str, **kwargs: object) -> None:
        raise KeyError("a bug")


@tool()
async def wait_a_little(ctx: ToolContext) -> str:
    """Waits."""
    return "waited"


async def open_gateway(
    tmp_path: Path,
    llm: ScriptedLLM,
    engine: type[ContextCompressor] = ContextCompressor,
    busy: Busy = "queue",
) -> Gateway:
    store = await temporary_store()
    agent = make_agent(llm, store.sessions, [wait_a_little], engine=lambda: engine(WINDOW))
    return make_gateway(agent, store, tmp_path, config={"gateway": {"busy": busy}})


async def send(gateway: Gateway, text: str) -> str:
    return (await gateway.receive(InboundMessage(Address("web", "desk"), OWNER, text))).id


async def until(
    gateway: Gateway, conversation_id: str, kind: type[TurnEvent], count: int = 1
) -> list[TurnEvent]:
    events: list[TurnEvent] = []
    with gateway.hub.watch(conversation_id, after=0) as watcher:
        while sum(isinstance(event, kind) for event in events) < count:
            events.append((await asyncio.wait_for(anext(watcher), 10)).event)
    return events


async def user_texts(gateway: Gateway, conversation_id: str) -> list[str]:
    transcript = await gateway.store.sessions.transcript(conversation_id)
    return [message.content for message in transcript if message.role == "user"]


@pytest.fixture(autouse=True)
def release_engine() -> Iterator[None]:
    Holding.entered.clear()
    Holding.release.clear()
    yield
    Holding.release.set()


async def test_a_stop_during_a_compaction_keeps_the_message(tmp_path: Path) -> None:
    """It was stored before anything else was done with it."""
    gateway = await open_gateway(tmp_path, ScriptedLLM(["Fine."]), Holding)
    conversation = await send(gateway, "important")
    await asyncio.to_thread(Holding.entered.wait, 10)
    assert gateway.stop_turn(conversation)
    await until(gateway, conversation, TurnDone)
    Holding.release.set()
    await send(gateway, "second")
    await until(gateway, conversation, TextDelta)
    assert await user_texts(gateway, conversation) == ["important", "second"]
    await gateway.close()


async def test_a_stop_before_the_turn_has_begun_is_heard_and_keeps_the_message(tmp_path: Path) -> None:
    """Cancelled before its first step, the turn still tells that it began and ended."""
    gateway = await open_gateway(tmp_path, ScriptedLLM(["Fine."]))
    conversation = await gateway.store.sessions.open_conversation(Address("web", "desk"), person=OWNER)
    quick = InboundMessage(Address("web", "desk"), OWNER, "quick")
    gateway.reserve(conversation.id, OWNER).fill(quick)
    while not gateway.stop_turn(conversation.id):  # noqa: ASYNC110 - one step at a time, to hit the moment before it begins
        await asyncio.sleep(0)
    events = await until(gateway, conversation.id, TurnDone)
    assert [type(event) for event in events] == [TurnStarted, TurnDone]
    assert await user_texts(gateway, conversation.id) == ["quick"]


async def test_what_waits_at_an_orderly_stop_is_kept(tmp_path: Path) -> None:
    """The accepted message is processed at the next start, and so is the interrupted turn."""
    gateway = await open_gateway(tmp_path, ScriptedLLM([["Once", asyncio.Event(), " upon"]]))
    conversation = await send(gateway, "one")
    await until(gateway, conversation, TextDelta)
    await send(gateway, "two")
    await send(gateway, "/status")
    await send(gateway, "three")
    await gateway.close()
    assert await user_texts(gateway, conversation) == ["one"]
    waiting = await gateway.store.inbox.waiting("web")
    assert [taken.payload["text"] for taken in waiting] == ["one", "two", "three"]


async def test_an_engine_that_cannot_begin_costs_neither_message_nor_answer(tmp_path: Path) -> None:
    """A broken plugin is told, once, and the conversation goes on without it."""
    gateway = await open_gateway(tmp_path, ScriptedLLM(["One.", "Two."]), Broken)
    conversation = await send(gateway, "first")
    await send(gateway, "second")
    events = await until(gateway, conversation, TurnDone, 2)
    assert [event.text for event in events if isinstance(event, TurnDone)] == ["One.", "Two."]
    assert not any(isinstance(event, TurnFailed) for event in events)
    assert await user_texts(gateway, conversation) == ["first", "second"]


async def test_messages_taken_for_steering_are_stored_together(tmp_path: Path) -> None:
    """All that waited is stored before any of it is shown."""
    gate = asyncio.Event()
    call = ToolCall("c1", "wait_a_little", "{}")
    gateway = await open_gateway(tmp_path, ScriptedLLM([["Hm. ", gate, call], "Done."]), busy="steer")
    conversation = await send(gateway, "a")
    await until(gateway, conversation, TextDelta)
    await send(gateway, "b")
    await send(gateway, "c")
    gate.set()
    await until(gateway, conversation, TurnDone)
    assert await user_texts(gateway, conversation) == ["a", "b", "c"]
