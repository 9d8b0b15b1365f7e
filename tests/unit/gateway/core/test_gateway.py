"""The gateway: one turn at a time per conversation, commands, and faults that stay where they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent.errors import ModelOverloaded
from agent.events import Notice, TextDelta, TurnDone, TurnEvent, TurnFailed
from agent.store import Address
from agent.testing import ScriptedLLM, Step
from gateway.commands import Commands
from gateway.commands.registry import Command, CommandContext
from gateway.core.events import Envelope
from gateway.core.gateway import Gateway
from gateway.core.turns import MAX_CRASHES
from gateway.plugins.loader import Plugins
from gateway.store.sqlite.store import SqliteStore
from gateway.types import OWNER, InboundMessage, parse_command
from tests.support.agents import make_agent
from tests.support.configuration import current_config
from tests.support.gateways import make_gateway
from tests.support.stores import temporary_store


@dataclass
class GatewayHarness:
    gateway: Gateway
    llm: ScriptedLLM
    store: SqliteStore

    async def send(self, text: str, chat: str = "desk") -> str:
        return (await self.gateway.receive(InboundMessage(Address("web", chat), OWNER, text))).id

    async def wait_for_text(self, conversation_id: str) -> None:
        with self.gateway.hub.watch(conversation_id, after=0) as watcher:
            while not isinstance((await asyncio.wait_for(anext(watcher), 5)).event, TextDelta):
                pass

    async def until(self, conversation_id: str, ends: int) -> list[TurnEvent]:
        """All events until so many turns have ended."""
        with self.gateway.hub.watch(conversation_id, after=0) as watcher:
            return await self.read(watcher, ends)

    async def read(self, watcher: AsyncIterator[Envelope], ends: int) -> list[TurnEvent]:
        events: list[TurnEvent] = []
        while sum(isinstance(event, TurnDone | TurnFailed) for event in events) < ends:
            events.append((await asyncio.wait_for(anext(watcher), 5)).event)
        return events


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    store, llm = await temporary_store(), ScriptedLLM()
    agent = make_agent(llm, store.sessions)
    gateway = make_gateway(agent, store, tmp_path)
    yield GatewayHarness(gateway, llm, store)
    await gateway.close()


def _gated(text: str) -> tuple[asyncio.Event, Sequence[Step]]:
    gate = asyncio.Event()
    return gate, [[text, gate, "."]]


async def test_messages_of_one_conversation_are_answered_in_order(harness: GatewayHarness) -> None:
    """A message sent while a turn runs waits for its own turn."""
    gate, steps = _gated("one")
    harness.llm.then(*steps, "two", "three")
    conversation = await harness.send("1")
    await harness.send("2")
    await harness.send("3")
    gate.set()
    events = await harness.until(conversation, 3)
    assert [event.text for event in events if isinstance(event, TurnDone)] == ["one.", "two", "three"]


async def test_conversations_do_not_wait_for_each_other(harness: GatewayHarness) -> None:
    """A turn that hangs in one chat does not hold up another."""
    gate = asyncio.Event()
    harness.llm.then(*[lambda request: ["slow", gate, "."] if "1" in str(request.messages) else "quick"] * 2)
    slow = await harness.send("1", chat="a")
    quick = await harness.send("2", chat="b")
    assert (await harness.until(quick, 1))[-1] == TurnDone("quick")
    gate.set()
    assert (await harness.until(slow, 1))[-1] == TurnDone("slow.")


async def test_stop_overtakes_and_what_waits_comes_next(harness: GatewayHarness) -> None:
    """/stop gets through while a turn runs; the message behind it is answered."""
    _, steps = _gated("endless")
    harness.llm.then(*steps, "next")
    conversation = await harness.send("1")
    await harness.wait_for_text(conversation)
    await harness.send("2")
    with harness.gateway.hub.watch(conversation, after=0) as watcher:
        await harness.send("/stop")
        ended = [event for event in await harness.read(watcher, 2) if isinstance(event, TurnDone)]
    assert [(event.text, event.stopped) for event in ended] == [("", True), ("next", False)]


async def test_a_command_that_crashes_beside_a_turn_is_answered_once(tmp_path: Path) -> None:
    """The error is logged, and the command does not stay in the inbox: each start would run it again."""

    async def crash(context: CommandContext, rest: str) -> str:
        raise ZeroDivisionError

    store, llm = await temporary_store(), ScriptedLLM()
    commands = Commands([Command("crash", "crash", crash, overtakes=True)])
    agent = make_agent(llm, store.sessions)
    gateway = Gateway(agent, store, commands, Plugins(), settings=current_config(), workspaces=tmp_path)
    harness = GatewayHarness(gateway, llm, store)
    with capture_logs() as logs:
        conversation = await harness.send("/crash")
    with gateway.hub.watch(conversation, after=0) as watcher:
        told = (await asyncio.wait_for(anext(watcher), 5)).event
    assert isinstance(told, Notice) and "broke down over this command" in told.text
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["command.crashed"]
    assert await store.inbox.waiting("web") == []
    await gateway.close()


async def test_commands_are_answered_and_never_reach_the_model(harness: GatewayHarness) -> None:
    """`/help` is a notice; the history stays empty."""
    conversation = await harness.send("/help")
    events = await harness.until(conversation, 1)
    assert any(isinstance(event, Notice) and "/reset" in event.text for event in events)
    assert harness.llm.requests == []
    assert await harness.store.sessions.transcript(conversation) == []


async def test_an_unknown_command_gets_a_hint(harness: GatewayHarness) -> None:
    """A slip of the finger is not sent to the model."""
    events = await harness.until(await harness.send("/rest"), 1)
    assert Notice("There is no /rest. Did you mean /reset?") in events


async def test_reset_begins_a_child_session_and_keeps_the_past(harness: GatewayHarness) -> None:
    """The new session knows nothing, the old one is its parent and stays searchable."""
    harness.llm.then("Noted.", "What codeword?")
    conversation = await harness.send("The codeword is heliotrope.")
    await harness.send("/reset")
    await harness.send("What is it?")
    await harness.until(conversation, 3)
    assert "heliotrope" not in str(harness.llm.requests[-1].messages)
    first, second = await harness.store.sessions.sessions(conversation)
    assert (second.parent_id, second.reason) == (first.id, "reset")
    assert await harness.store.sessions.search("heliotrope", conversation_id=conversation)


async def test_a_failing_turn_is_a_sentence_and_the_next_one_works(harness: GatewayHarness) -> None:
    """A provider's trouble ends one turn."""
    harness.llm.then(ModelOverloaded(), "Fine.")
    conversation = await harness.send("1")
    await harness.send("2")
    events = await harness.until(conversation, 2)
    assert TurnFailed(str(ModelOverloaded())) in events
    assert events[-1] == TurnDone("Fine.")


async def test_a_bug_in_one_turn_does_not_end_the_mailbox(harness: GatewayHarness) -> None:
    """An unexpected error leaves the conversation usable."""

    def broken(request: object) -> Step:
        raise ZeroDivisionError

    harness.llm.then(*[broken] * MAX_CRASHES, "Fine.")
    conversation = await harness.send("1")
    await harness.send("2")
    events = await harness.until(conversation, 2)
    assert "broke down" in next(event.error for event in events if isinstance(event, TurnFailed))
    assert events[-1] == TurnDone("Fine.")


async def test_closing_ends_turns_and_keeps_new_messages_for_later(harness: GatewayHarness) -> None:
    """Shutdown does not hang on a model that never answers."""
    _, steps = _gated("endless")
    harness.llm.then(*steps)
    await harness.send("1")
    await asyncio.wait_for(harness.gateway.close(), 5)
    await harness.send("2")
    waiting = await harness.store.inbox.waiting("web")
    assert [taken.payload["text"] for taken in waiting] == ["1", "2"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/help", True),
        ("/Help me", True),
        ("/undo-compress", True),
        ("/", False),
        ("/etc/hosts is broken", False),
        ("// comment", False),
        ("help", False),
        (" /help", False),
    ],
)
def test_what_counts_as_a_command(text: str, expected: bool) -> None:
    """A path at the beginning of a message is not a command."""
    assert (parse_command(text) is not None) is expected


@pytest.mark.parametrize("is_admin", [True, False])
async def test_advice_about_settings_is_for_admins(tmp_path: Path, is_admin: bool) -> None:
    """Guests cannot change `hermes.yaml`, and it is not their business."""
    store, llm = await temporary_store(), ScriptedLLM(["Fine."] * 6, context_length=1_000)
    agent = make_agent(llm, store.sessions)
    agent.instructions = "Be kind. " * 500
    gateway = make_gateway(agent, store, tmp_path)
    harness = GatewayHarness(gateway, llm, store)
    conversation = ""
    for number in range(4):
        inbound = InboundMessage(Address("web", "desk"), "telegram:5", f"{number}", is_admin=is_admin)
        conversation = (await gateway.receive(inbound)).id
    told = [event.text for event in await harness.until(conversation, 4) if isinstance(event, Notice)]
    await gateway.close()
    assert any("Enable fewer tools" in text for text in told) == is_admin
