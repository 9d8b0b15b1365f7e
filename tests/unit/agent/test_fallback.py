"""A fallback to another model concerns the conversation it answered in, and no other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from agent.context.engine_runner import EngineRunner
from agent.context_compressor import ContextCompressor
from agent.errors import ContextOverflow, QuotaExhausted
from agent.events import Compacted, TurnDone, TurnEvent, UsageReported
from agent.llm import ChatRequest, Completion, Usage
from agent.llm.retry import RetryingLLM
from agent.llm.selection import ModelInUse
from agent.loop import Agent, Turn
from agent.messages import Message
from agent.store import Address
from agent.testing import ScriptedLLM, Step
from gateway.core.session_policy import compact_if_oversized
from gateway.store.sqlite.store import SqliteStore
from tests.support.agents import make_agent
from tests.support.stores import temporary_store

LARGE, SMALL = 200_000, 8_000
MAIN, SPARE = ModelInUse("scripted/main", LARGE), ModelInUse("scripted/spare", SMALL)


def _unless_troubled(request: ChatRequest) -> Step:
    """Has no credit where the message says "trouble"."""
    if "trouble" in str(request.messages[-1]["content"]):
        return QuotaExhausted()
    return Completion("Main here.", usage=Usage(20_000, 10), model=MAIN.model)


@dataclass
class AgentHarness:
    agent: Agent
    store: SqliteStore
    main: ScriptedLLM
    spare: ScriptedLLM
    folder: Path

    async def say(self, chat: str, text: str) -> list[TurnEvent]:
        conversation = await self.store.sessions.open_conversation(Address("web", chat), person=chat)
        turn = Turn(conversation, Message("user", text), self.folder)
        return [event async for event in self.agent.run(turn)]

    async def runner(self, chat: str) -> EngineRunner:
        conversation = await self.store.sessions.open_conversation(Address("web", chat), person=chat)
        runner = self.agent.auto_compaction.compactor.engines.peek(conversation.id)
        assert runner is not None
        return runner

    async def fits(self, chat: str) -> ModelInUse:
        """Return the model that the conversation's engine was told of."""
        runner = await self.runner(chat)
        return replace(runner.llm, context_length=runner.engine.context_length)


async def open_harness(tmp_path: Path) -> AgentHarness:
    store = await temporary_store()
    main = ScriptedLLM([_unless_troubled] * 50, model=MAIN.model, context_length=LARGE)
    spare = ScriptedLLM(["Spare here."] * 50, model=SPARE.model, context_length=SMALL)
    llm = RetryingLLM([main, spare])
    agent = make_agent(
        llm,
        store.sessions,
        engine=lambda: ContextCompressor(LARGE, protect_last_n=2, summarize=lambda prompt, limit: "## Goal"),
        background_at=1.0,
    )
    return AgentHarness(agent, store, main, spare, tmp_path)


async def test_a_fallback_elsewhere_changes_nothing_here(tmp_path: Path) -> None:
    """Chat B, at 20k of 200k, keeps its model and its window while chat A is answered by a small model."""
    harness = await open_harness(tmp_path)
    for _ in range(4):
        await harness.say("b", "All well. " + "word " * 300)
    assert (await harness.say("a", "trouble"))[-1] == TurnDone("Spare here.")
    assert await harness.fits("b") == MAIN
    conversation = await harness.store.sessions.open_conversation(Address("web", "b"), person="b")
    assert await compact_if_oversized(harness.agent, await harness.agent.open(conversation)) == []
    events = await harness.say("b", "Still well.")
    assert not any(isinstance(event, Compacted) for event in events)
    assert (await harness.store.sessions.session(conversation.live_session_id)).model == MAIN.model


async def test_both_at_the_same_time(tmp_path: Path) -> None:
    """Each call reports the model and the window of its own answer."""
    harness = await open_harness(tmp_path)
    for _ in range(3):
        heard = await asyncio.gather(harness.say("a", "trouble"), harness.say("b", "All well."))
        for events, who in zip(heard, (SPARE, MAIN), strict=True):
            [report] = [event for event in events if isinstance(event, UsageReported)]
            assert ModelInUse(report.model, report.context_length) == who
        assert (await harness.fits("a"), await harness.fits("b")) == (SPARE, MAIN)


async def test_it_recovers_when_the_first_model_answers_again(tmp_path: Path) -> None:
    """The conversation's own window is that of the model that answered in it last."""
    harness = await open_harness(tmp_path)
    await harness.say("a", "All well.")
    assert await harness.fits("a") == MAIN
    await harness.say("a", "trouble")
    assert await harness.fits("a") == SPARE
    await harness.say("a", "All well.")
    assert await harness.fits("a") == MAIN


async def test_a_fallback_that_cannot_hold_the_conversation(tmp_path: Path) -> None:
    """The conversation is compacted for the window of the model that refused it, and then answered."""
    harness = await open_harness(tmp_path)
    for number in range(12):
        await harness.say("a", f"All well, {number}. " + "word " * 800)
    harness.spare._steps[:0] = [ContextOverflow()]
    events = await harness.say("a", "trouble")
    assert any(isinstance(event, Compacted) for event in events)
    assert events[-1] == TurnDone("Spare here.")
    assert len(str(harness.spare.requests[-1].messages)) < len(str(harness.spare.requests[0].messages)) / 2
    assert await harness.fits("a") == SPARE
    await harness.say("a", "All well.")
    assert await harness.fits("a") == MAIN


async def test_cache_markers_stay_on_while_another_chat_falls_back(tmp_path: Path) -> None:
    """The request is marked for the model that is asked first; a fallback without markers gets none."""
    store = await temporary_store()
    main = ScriptedLLM([_unless_troubled] * 9, model="anthropic/claude-sonnet-4-5", context_length=LARGE)
    spare = ScriptedLLM(["Spare here."] * 9, model=SPARE.model, context_length=SMALL)
    harness = AgentHarness(
        make_agent(RetryingLLM([main, spare]), store.sessions), store, main, spare, tmp_path
    )
    await harness.say("a", "trouble")
    await harness.say("b", "All well.")
    assert "cache_control" in str(main.requests[-1].messages)
    assert "cache_control" not in str(spare.requests[-1].messages)
