"""What becomes of a message that comes while an answer is being written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.events import Notice, Queued, Steered, TextDelta, TurnDone, TurnEvent, TurnStarted
from agent.messages import ToolCall
from agent.store import Address
from agent.testing import ScriptedLLM
from agent.tool import ToolContext, tool
from gateway.core.turns import Busy
from gateway.store.sqlite.store import SqliteStore
from gateway.types import OWNER, InboundMessage
from tests.support.agents import make_agent
from tests.support.gateways import make_gateway
from tests.support.stores import temporary_store

HERE = Address("web", "desk")


@tool()
async def look(ctx: ToolContext) -> str:
    """Look."""
    return "seen"


class GatewayHarness:
    """A gateway, and everything that was heard from its one conversation."""

    def __init__(self, store: SqliteStore, folder: Path, busy: Busy, *answers: Any) -> None:
        self.llm = ScriptedLLM(list(answers))
        agent = make_agent(self.llm, store.sessions, [look])
        self.gateway = make_gateway(agent, store, folder, config={"gateway": {"busy": busy}})
        self.events: list[TurnEvent] = []

    async def send(self, text: str) -> None:
        await self.gateway.receive(InboundMessage(HERE, OWNER, text))

    async def hear(self, kind: type[TurnEvent], count: int = 1) -> None:
        """Waits until so many of these have been heard in all."""
        conversation = await self.gateway.store.sessions.open_conversation(HERE, person=OWNER)
        self.events.clear()
        with self.gateway.hub.watch(conversation.id, after=0) as watcher:
            while sum(isinstance(event, kind) for event in self.events) < count:
                self.events.append((await asyncio.wait_for(anext(watcher), 10)).event)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


async def test_a_message_waits_by_default(tmp_path: Path) -> None:
    """It is told that it waits and behind how many, and its own turn comes after the running one."""
    gate = asyncio.Event()
    harness = GatewayHarness(await temporary_store(), tmp_path, "queue", ["One", gate, "."], "Two.", "Three.")
    listening = asyncio.create_task(harness.hear(TurnDone, 3))
    await harness.send("first")
    await _until(lambda: harness.of(TextDelta))
    await harness.send("second")
    await harness.send("third")
    gate.set()
    await listening
    assert [(event.text, event.how, event.ahead) for event in harness.of(Queued)] == [
        ("second", "queue", 1),
        ("third", "queue", 2),
    ]
    assert [event.text for event in harness.of(TurnStarted)] == ["first", "second", "third"]
    assert [event.text for event in harness.of(TurnDone)] == ["One.", "Two.", "Three."]
    assert not harness.of(Steered)


async def test_a_message_steers(tmp_path: Path) -> None:
    """The model has it at its next step, and no turn of its own follows."""
    gate = asyncio.Event()
    harness = GatewayHarness(
        await temporary_store(), tmp_path, "steer", ["Hm", gate, ToolCall("c1", "look", "{}")], "Both."
    )
    listening = asyncio.create_task(harness.hear(TurnDone))
    await harness.send("first")
    await _until(lambda: harness.of(TextDelta))
    await harness.send("second")
    gate.set()
    await listening
    assert [event.how for event in harness.of(Queued)] == ["steer"]
    assert [event.text for event in harness.of(Steered)] == ["second"]
    assert [event.text for event in harness.of(TurnStarted)] == ["first"]


async def test_a_message_interrupts(tmp_path: Path) -> None:
    """The running answer is cancelled, and the new message starts at once."""
    harness = GatewayHarness(
        await temporary_store(), tmp_path, "interrupt", ["Once upon", asyncio.Event()], "Two."
    )
    listening = asyncio.create_task(harness.hear(TurnDone, 2))
    await harness.send("a story")
    await _until(lambda: harness.of(TextDelta))
    await harness.send("no, the weather")
    await listening
    assert [event.stopped for event in harness.of(TurnDone)] == [True, False]
    assert harness.of(TurnDone)[1].text == "Two."


@pytest.mark.parametrize("busy", ["queue", "steer", "interrupt"])
async def test_a_command_waits_its_turn_in_every_mode(tmp_path: Path, busy: Busy) -> None:
    """A command is neither given to the model nor does it end an answer, unless it overtakes."""
    gate = asyncio.Event()
    harness = GatewayHarness(await temporary_store(), tmp_path, busy, ["One", gate, "."])
    listening = asyncio.create_task(harness.hear(TurnDone, 2))
    await harness.send("first")
    await _until(lambda: harness.of(TextDelta))
    await harness.send("/usage")
    gate.set()
    await listening
    assert [event.how for event in harness.of(Queued)] == ["queue"]
    assert harness.of(TurnDone)[0].text == "One."
    assert any("tokens" in event.text for event in harness.of(Notice))


async def test_stop_gets_through_at_once(tmp_path: Path) -> None:
    """Although two messages wait."""
    harness = GatewayHarness(
        await temporary_store(), tmp_path, "queue", ["Once upon", asyncio.Event()], "Two.", "Three."
    )
    listening = asyncio.create_task(harness.hear(TurnDone, 3))
    await harness.send("a story")
    await _until(lambda: harness.of(TextDelta))
    await harness.send("second")
    await harness.send("third")
    await harness.send("/stop")
    await listening
    assert [event.stopped for event in harness.of(TurnDone)] == [True, False, False]
    assert harness.of(Notice)[0].text == "Stopped."


async def test_a_waiting_message_can_be_replaced_until_its_turn(tmp_path: Path) -> None:
    """Its author has changed it; once the model has it, that is over."""
    gate = asyncio.Event()
    harness = GatewayHarness(await temporary_store(), tmp_path, "queue", ["One", gate, "."], "Two.")
    listening = asyncio.create_task(harness.hear(TurnDone, 2))
    await harness.send("first")
    await _until(lambda: harness.of(TextDelta))
    waiting = InboundMessage(HERE, OWNER, "secnod")
    conversation = await harness.gateway.receive(waiting)
    changed = InboundMessage(HERE, OWNER, "second", id=waiting.id)
    assert harness.gateway.replace_queued(conversation.id, changed)
    gate.set()
    await listening
    assert harness.of(TurnStarted)[1].text == "second"
    assert not harness.gateway.replace_queued(conversation.id, changed)


async def _until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the events arrive in another task of the same loop
            await asyncio.sleep(0)
