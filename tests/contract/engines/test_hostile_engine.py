"""A hostile engine, method by method: it cannot hang a chat, end the process, lose a message or nag.

Everything but the engine and the model is real: agent, gateway, and a database file.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent.context.engine_runner import DEADLINES
from agent.context_engine import ContextEngine
from agent.events import Notice, TurnDone, TurnEvent, TurnFailed
from agent.llm import ChatRequest, Completion, Usage
from agent.loop import Agent
from agent.messages import Message, ToolCall
from agent.store import Address
from agent.testing import ScriptedLLM, Step
from gateway.config.schema import SessionsConfig
from gateway.core.gateway import Gateway
from gateway.store.sqlite.store import SqliteStore
from gateway.types import OWNER, InboundMessage
from tests.support import hostile_engine as hostile
from tests.support.agents import make_agent
from tests.support.gateways import make_gateway
from tests.support.hostile_engine import ERRORS, Deed, Hanging, Hostile, raising, returning

WINDOW = 4_000
PATIENCE = 20.0
"""Seconds. Only so that a test which hangs fails instead."""

IN_TURN = (
    "update_from_response",
    "should_compress",
    "should_compress_preflight",
    "compress",
    "on_session_start",
    "update_model",
    "get_tool_schemas",
    "handle_tool_call",
    "hint",
    "name",
    "__init__",
)
AT_RESET = ("on_session_end", "on_session_reset")
ATTRIBUTES = ("threshold_tokens", "last_outcome", "has_fallback_summary")
QUIET = ("hint",)
"""An extra: what goes wrong with it is a matter for the log."""

SELF_CONTAINED: list[object] = []
SELF_CONTAINED.append(SELF_CONTAINED)

NONSENSE: dict[str, Deed] = {
    "None": returning(None),
    "number": returning(7),
    "nan": returning(float("nan")),
    "text": returning("text"),
    "bytes": returning(b"bytes"),
    "mapping": returning({}),
    "empty list": returning([]),
    "list of None": returning([None]),
    "empty message": returning([{}]),
    "object": returning(object()),
    "a list in itself": returning(SELF_CONTAINED),
    "coroutine": hostile.unawaited,
    "half a character": returning("\ud800"),
}


@dataclass
class HostileEngineHarness:
    """A gateway whose next engines do the deeds of the moment."""

    agent: Agent
    gateway: Gateway
    llm: ScriptedLLM
    store: SqliteStore
    make: Callable[[], ContextEngine]
    engines: list[ContextEngine] = field(default_factory=list)

    def engine(self) -> ContextEngine:
        self.engines.append(self.make())
        return self.engines[-1]

    async def say(
        self, text: str, chat: str = "desk", *, until: tuple[type, ...] = (TurnDone, TurnFailed)
    ) -> list[TurnEvent]:
        """The events of the whole turn."""
        address = Address("web", chat)
        conversation = await self.store.sessions.open_conversation(address, person=OWNER)
        last = self.gateway.hub.last_number(conversation.id)
        with self.gateway.hub.watch(conversation.id, after=last) as watcher:
            await self.gateway.receive(InboundMessage(address, OWNER, text))
            events: list[TurnEvent] = []
            async with asyncio.timeout(PATIENCE):
                while not events or not isinstance(events[-1], until):
                    events.append((await anext(watcher)).event)
        return events

    async def live_through(self, chat: str) -> list[str]:
        """Two messages, a new session, two more: each is stored and answered. Gives the notices about the engine."""
        seen: list[TurnEvent] = []
        for text in ("count one", "count two", "/reset", "count three", "four"):
            # An engine that still prepares a compaction is dropped by /reset instead of being told.
            await self.agent.auto_compaction.compactor.drafts.settled()
            events = await self.say(text, chat)
            answer = events[-1]
            assert isinstance(answer, TurnDone), f"{chat}: {text}: {answer}"
            assert text.startswith("/") or answer.text == "Answered.", chat
            seen += events
        conversation = await self.store.sessions.open_conversation(Address("web", chat), person=OWNER)
        said = [each for each in await self.store.sessions.transcript(conversation.id) if each.role == "user"]
        assert [each.content for each in said] == ["count one", "count two", "count three", "four"], chat
        assert not await self.store.inbox.parked() and not await self.store.inbox.waiting("web")
        return notices(seen)


def work(request: ChatRequest) -> Step:
    """Uses the engine's tool once for each message, and reports more than the threshold."""
    newest = request.messages[-1]
    if newest["role"] != "tool" and "count" in str(newest["content"]) and request.tools:
        return Completion("", (ToolCall("c1", "count_word", '{"word": "x"}'),), "tool_calls", Usage(900, 10))
    return Completion("Answered.", usage=Usage(900, 10))


@asynccontextmanager
async def open_harness(
    tmp_path: Path,
    deeds: Mapping[str, Deed] | None = None,
    *,
    deadlines: Mapping[str, float] = DEADLINES,
    sessions: SessionsConfig | None = None,
) -> AsyncIterator[HostileEngineHarness]:
    store = await SqliteStore.open(tmp_path / "state.db")
    llm = ScriptedLLM([work] * 500, context_length=WINDOW)
    agent = make_agent(llm, store.sessions, engine=lambda: harness.engine(), deadlines=deadlines)
    gateway = make_gateway(agent, store, tmp_path, config={"sessions": sessions or SessionsConfig()})
    harness = HostileEngineHarness(agent, gateway, llm, store, lambda: Hostile(deeds or {}))
    try:
        # To draw a traceback takes longer than the turn it comes from.
        with capture_logs():
            yield harness
    finally:
        async with asyncio.timeout(PATIENCE):
            await gateway.close()
            await agent.close()
            await store.close()


def notices(events: list[TurnEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice) and "engine" in event.text]


@pytest.mark.parametrize("method", (*IN_TURN, *AT_RESET))
async def test_an_engine_that_raises(tmp_path: Path, method: str) -> None:
    """Every message is answered, and the person is told once; of a hint not even that."""
    async with open_harness(tmp_path) as harness:
        for name, error in ERRORS.items():
            harness.make = partial(Hostile, {method: raising(error)})
            told = await harness.live_through(name)
            assert len(told) == (0 if method in QUIET else 1), name
            assert not any("nothing was compressed" in sentence.lower() for sentence in told)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    deed = Hanging()
    yield deed
    deed.release.set()


@pytest.mark.parametrize("method", (*IN_TURN, *AT_RESET))
async def test_an_engine_that_hangs(tmp_path: Path, method: str, hanging: Hanging) -> None:
    """It is abandoned, and the turn goes on without it; a shutdown does not wait for it either."""
    # The host reads the name while it makes the engine.
    called = "__init__" if method == "name" else method
    async with open_harness(tmp_path, {method: hanging}, deadlines={**DEADLINES, called: 0.3}) as harness:
        assert len(await harness.live_through("desk")) == 1


@pytest.mark.parametrize("method", (*IN_TURN[:-1], *AT_RESET))
async def test_an_engine_that_returns_nonsense(tmp_path: Path, method: str) -> None:
    """Each message is answered; the person is told at most once, and always where a compaction came to nothing."""
    deeds = {**NONSENSE, **hostile.BAD_LISTS} if method == "compress" else NONSENSE
    async with open_harness(tmp_path) as harness:
        for name, deed in deeds.items():
            harness.make = partial(Hostile, {method: deed})
            told = await harness.live_through(name)
            assert len(told) <= 1, name
            assert told or method != "compress", name


async def test_a_summary_that_cannot_be_used_is_not_paid_for_again(tmp_path: Path) -> None:
    """Neither for the same message nor for the next: the turn does not crash, and the brake holds."""
    async with open_harness(
        tmp_path, {"compress": returning([{"role": "assistant", "tool_calls": [{"id": "c"}]}])}
    ) as harness:
        for text in ("count one", "count two", "three"):
            assert isinstance((await harness.say(text))[-1], TurnDone)
        [engine] = harness.engines
    assert isinstance(engine, Hostile)
    assert engine.compressed == 1


@pytest.mark.parametrize("attribute", ATTRIBUTES)
async def test_attributes_that_are_nonsense(tmp_path: Path, attribute: str) -> None:
    """Attributes may have any value, or raise."""
    async with open_harness(tmp_path) as harness:
        for name, deed in {**NONSENSE, **{name: raising(error) for name, error in ERRORS.items()}}.items():
            harness.make = partial(hostile.with_attribute(attribute, deed), {})
            assert len(await harness.live_through(name)) <= 1, name
            [*_, status] = await harness.say("/status", name, until=(Notice,))
            assert isinstance(status, Notice) and "Context engine: hostile, compacts at" in status.text


@pytest.mark.parametrize(
    "method", ("compress", "should_compress_preflight", "hint", "handle_tool_call", "on_session_end")
)
async def test_an_engine_that_ruins_its_input(tmp_path: Path, method: str) -> None:
    """It works on copies: the next request begins with the one before, byte for byte."""
    async with open_harness(
        tmp_path, {method: hostile.vandal, "should_compress": returning(method == "compress")}
    ) as harness:
        for text in ("count one", "count two", "three"):
            assert isinstance((await harness.say(text))[-1], TurnDone)
        for earlier, later in pairwise(harness.llm.requests):
            assert later.messages[: len(earlier.messages)] == earlier.messages


@pytest.mark.parametrize("method", IN_TURN)
async def test_an_engine_that_is_slow(tmp_path: Path, method: str) -> None:
    """Slow is not hung."""
    async with open_harness(tmp_path, {}) as harness:
        harness.make = partial(hostile.SlowButWell, method)
        assert await harness.live_through("desk") == []


@pytest.mark.parametrize("method", ["get_status", "problem"])
async def test_a_status_that_is_wrong(tmp_path: Path, hanging: Hanging, method: str) -> None:
    """`/status` answers without it."""
    deeds = {**NONSENSE, "hangs": hanging, **{name: raising(error) for name, error in ERRORS.items()}}
    async with open_harness(tmp_path, deadlines={**DEADLINES, method: 0.3}) as harness:
        for name, deed in deeds.items():
            harness.make = partial(Hostile, {method: deed})
            await harness.say("one", name)
            [*_, status] = await harness.say("/status", name, until=(Notice,))
            assert isinstance(status, Notice) and "Context engine: hostile, compacts at" in status.text
            assert isinstance((await harness.say("two", name))[-1], TurnDone)


async def test_a_reset_by_itself_with_an_engine_that_fails(tmp_path: Path) -> None:
    """The message that begins the new session is stored and answered, and another engine hears of that session."""
    sessions = SessionsConfig.model_validate({"reset": "idle", "idle_minutes": 30})
    async with open_harness(
        tmp_path, {"on_session_reset": raising(ERRORS["ValueError"])}, sessions=sessions
    ) as harness:
        conversation = await harness.store.sessions.open_conversation(Address("web", "desk"), person=OWNER)
        old = Message("user", "long ago", created_at=time.time() - 10 * 86_400)
        answer = Message("assistant", "yes", created_at=old.created_at)
        await harness.store.sessions.append(conversation.live_session_id, [old, answer])
        events = await harness.say("hello again")
        assert events[-1] == TurnDone("Answered.")
        live = (await harness.store.sessions.conversation(conversation.id)).live_session_id
        first, second = harness.engines
    assert live != conversation.live_session_id
    assert len(notices(events)) == 1
    assert isinstance(first, Hostile) and isinstance(second, Hostile)
    assert (first.sessions, second.sessions) == ([conversation.live_session_id], [live])
