"""When a compaction happens, and how long a turn waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent.context.compaction_pace import CompactionPace, SummaryTimeout
from agent.context.live import believed_usage, estimated_tokens, fixed_tokens, next_prompt_tokens
from agent.context_compressor import ContextCompressor
from agent.context_engine import ContextEngine
from agent.events import Compacted, Notice, TurnDone, TurnEvent
from agent.llm import Completion, Usage
from agent.messages import ChatDict, ToolCall
from agent.store import Address, Split
from agent.testing import ScriptedLLM
from tests.support.agent_harness import WINDOW, AgentHarness, ForeignEngine, fill, nothing, open_agent, reply
from tests.support.agents import make_agent
from tests.support.stores import temporary_store

LONG = 3_600.0
"""Seconds that no test waits for."""
EXTRACT = "No summary could be written"


def compacted(events: list[TurnEvent]) -> bool:
    return any(isinstance(event, Compacted) for event in events)


async def hanging(
    tmp_path: Path, summary_timeout: SummaryTimeout, answered: asyncio.Event
) -> tuple[AgentHarness, ScriptedLLM]:
    """A summariser that accepts every request and answers when the event is set."""
    store, llm = await temporary_store(), ScriptedLLM([], context_length=WINDOW)
    auxiliary = ScriptedLLM([[answered, "## Goal\nTo test."]] * 20, context_length=WINDOW)
    agent = make_agent(
        llm,
        store.sessions,
        [nothing],
        engine=lambda: ContextCompressor(WINDOW, protect_last_n=2),
        auxiliary=auxiliary,
        summary_timeout=summary_timeout,
    )
    conversation = await store.sessions.open_conversation(Address("web", "desk"), person="owner")
    return AgentHarness(agent, llm, store.sessions, conversation.id, tmp_path), auxiliary


async def test_a_turn_waits_once_for_a_summary_that_does_not_come(tmp_path: Path) -> None:
    """Then an extract is used, and the summary replaces it when it comes."""
    summary_timeout, answered = SummaryTimeout(turn_seconds=0.05), asyncio.Event()
    at, _ = await hanging(tmp_path, summary_timeout, answered)
    await fill(at, 12)
    for number in range(4):
        await at.store.record_usage(await at.live(), Usage(2_100, 1), model="m")
        at.llm.then(reply(f"Here {number}.", 900))
        events = await asyncio.wait_for(at.say("word " * 200), 30)
        assert events[-1] == TurnDone(f"Here {number}.")
        told = any(isinstance(event, Notice) and EXTRACT in event.text for event in events)
        assert (compacted(events), told) == (True, number == 0)
        # From the second message on a turn that waits does so for an hour.
        summary_timeout.turn_seconds = LONG
    outcomes = [row.outcome for _, row in await at.store.compactions(at.conversation_id)]
    assert outcomes == ["stand_in"] * 4

    answered.set()
    await at.agent.auto_compaction.compactor.drafts.settled()
    at.llm.then(reply("Summarised.", 900))
    events = await at.say("Last")
    assert compacted(events)
    assert "To test." in str(at.llm.requests[-1].messages)
    assert (await at.store.compactions(at.conversation_id))[-1][1].outcome == "ok"


async def test_a_turn_waits_only_a_while_for_what_is_being_prepared(tmp_path: Path) -> None:
    """The time counts from when the summary was asked for."""
    at, auxiliary = await hanging(tmp_path, SummaryTimeout(turn_seconds=0.05), asyncio.Event())
    await fill(at, 12)
    at.llm.then(reply("Near the edge.", 1_700))
    await at.say("A")
    at.llm.then(
        Completion("Looking.", (ToolCall("c1", "nothing", "{}"),), "tool_calls", Usage(2_100, 10)),
        reply("Done.", 900),
    )
    events = await asyncio.wait_for(at.say("B"), 30)
    assert compacted(events) and events[-1] == TurnDone("Done.")
    # The redo in the background may already have asked for a summary of the extract.
    first = [request for request in auxiliary.requests if "END OF EXTRACT" not in str(request.messages)]
    assert len(first) == 1, "it was not asked twice"


async def test_an_extract_from_the_background_is_not_kept(tmp_path: Path) -> None:
    """The summariser failed in the background; at the threshold it is asked again."""

    def broken(prompt: str, max_tokens: int) -> str:
        if len(prompts) < 1:
            prompts.append(prompt)
            raise RuntimeError("no")
        return "## Goal\nTo test."

    prompts: list[str] = []
    harness = await open_agent(
        tmp_path,
        [],
        engine=lambda: ContextCompressor(WINDOW, protect_last_n=2, summarize=broken),
        background_at=0.8,
    )
    await fill(harness, 12)
    harness.llm.then(reply("Near the edge.", 1_700))
    await harness.say("A")
    await harness.agent.auto_compaction.compactor.drafts.settled()
    await harness.store.record_usage(await harness.live(), Usage(2_100, 1), model="m")
    harness.llm.then(reply("Done.", 900))
    assert compacted(await harness.say("B"))
    [(_, row)] = await harness.store.compactions(harness.conversation_id)
    assert row.outcome == "ok"


async def test_a_draft_after_a_failed_one_waits_for_the_threshold(tmp_path: Path) -> None:
    """The extract was thrown away, so there is none in use that a summary would have to replace."""
    asked: list[str] = []

    def broken(prompt: str, max_tokens: int) -> str:
        asked.append(prompt)
        if len(asked) == 1:
            raise RuntimeError("no")
        return "## Goal\nTo test."

    harness = await open_agent(
        tmp_path,
        [],
        engine=lambda: ContextCompressor(WINDOW, protect_last_n=2, summarize=broken),
        background_at=0.8,
    )
    await fill(harness, 12)
    for tokens in (1_650, 1_900, 1_950):
        harness.llm.then(reply("Near the edge.", tokens))
        assert not compacted(await harness.say("A"))
        await harness.agent.auto_compaction.compactor.drafts.settled()
    assert len(asked) == 2


async def test_an_extract_is_replaced_at_leisure_after_a_restart(tmp_path: Path) -> None:
    """The engine is new; that the messages hold an extract shows in them."""
    harness = await open_agent(tmp_path, [], summaries=[])
    await fill(harness, 12)
    await harness.store.record_usage(await harness.live(), Usage(2_100, 1), model="m")
    harness.llm.then(reply("Done.", 700))
    assert compacted(await harness.say("A"))
    working = ContextCompressor(WINDOW, protect_last_n=2, summarize=lambda *_: "## Goal\nTo test.")
    harness.agent = make_agent(harness.llm, harness.store, [nothing], engine=lambda: working)
    for is_replaced in (False, True):
        harness.llm.then(reply("Small.", 750))
        assert compacted(await harness.say("B")) is is_replaced
        await harness.agent.auto_compaction.compactor.drafts.settled()
    assert [row.outcome for _, row in await harness.store.compactions(harness.conversation_id)] == [
        "stand_in",
        "ok",
    ]


async def test_a_threshold_of_zero_compacts_whenever_something_can_be_gained(tmp_path: Path) -> None:
    """The newest messages stay unchanged, and with no others nothing is compacted."""
    engine = ContextCompressor(
        WINDOW, threshold=0.0, protect_last_n=6, summarize=lambda *_: "## Goal\nTo test."
    )
    harness = await open_agent(tmp_path, [], engine=lambda: engine)
    await fill(harness, 4)
    assert len(await harness.store.sessions(harness.conversation_id)) == 1
    await fill(harness, 6)
    sessions = len(await harness.store.sessions(harness.conversation_id))
    assert sessions > 3
    newest = [message.content for message in (await harness.store.transcript(harness.conversation_id))[-6:]]
    assert [message.content for message in await harness.history()][-6:] == newest
    assert all(message.kind == "said" for message in (await harness.history())[-6:])


async def test_an_engine_may_compact_before_its_threshold(tmp_path: Path) -> None:
    """The engine decides; Hermes only holds it back where compactions come too often."""

    class Early(ForeignEngine):
        threshold_tokens = 3_000

        def update_model(self, model: str, context_length: int) -> None:  # type: ignore[override]
            """The threshold stays."""

    harness = await open_agent(tmp_path, [], engine=Early)
    await fill(harness, 5)
    await harness.store.record_usage(await harness.live(), Usage(2_500, 1), model="m")
    harness.llm.then(reply("Done.", 500))
    assert compacted(await harness.say("Go on."))


async def test_usage_that_cannot_be_true_does_not_count(tmp_path: Path) -> None:
    """A provider that reports the sum of all calls: neither the loop nor the engine believes it."""
    harness = await open_agent(tmp_path, [])
    harness.llm.context_length = 40_000
    total = 0
    for number in range(20):
        live = await harness.agent.open(await harness.store.conversation(harness.conversation_id))
        total += estimated_tokens(live) + 1_000
        harness.llm.then(reply(f"Answer {number}. " + "detail " * 30, total))
        assert not compacted(await harness.say(f"Question {number}. " + "word " * 60))
        assert not compacted(await harness.hygiene())
    live = await harness.agent.open(await harness.store.conversation(harness.conversation_id))
    assert live.session.prompt_tokens == total > 40_000
    assert next_prompt_tokens(live) == estimated_tokens(live) < 5_000
    runner = await harness.agent.auto_compaction.compactor.engines.get(live)
    assert runner.engine.last_prompt_tokens < 5_000


async def test_a_report_counts_as_long_as_it_can_be_true(tmp_path: Path) -> None:
    """Digits and rare scripts take more tokens than estimated; tool definitions are part of the estimate."""
    harness = await open_agent(tmp_path, [])
    await fill(harness, 5)
    live = await harness.agent.open(await harness.store.conversation(harness.conversation_id))
    assert live.tools_tokens > 0
    assert fixed_tokens(live) > live.tools_tokens
    estimated = estimated_tokens(live)
    for reported in (estimated // 4, estimated, estimated * 3):
        assert believed_usage(live, Usage(reported, 1)).prompt_tokens == reported
    for reported in (0, estimated * 10):
        assert believed_usage(live, Usage(reported, 1)).prompt_tokens == estimated


async def test_hygiene_backs_off_where_it_does_not_help(tmp_path: Path) -> None:
    """A window that stays nearly full does not cause a compaction at every turn."""
    harness = await open_agent(tmp_path, [], summaries=["## Goal\nTo test."] * 30)
    harness.agent.auto_compaction.enabled = False
    await fill(harness, 12, tokens=3_500)
    harness.agent.auto_compaction.enabled = True
    done = 0
    for number in range(10):
        done += compacted(await harness.hygiene())
        harness.agent.auto_compaction.enabled = False
        harness.llm.then(reply("detail " * 150, 3_500))
        await harness.say(f"Question {number}. " + "word " * 200)
        harness.agent.auto_compaction.enabled = True
    assert done == 1


async def test_hygiene_leaves_alone_what_the_tools_fill(tmp_path: Path) -> None:
    """No compaction makes tools smaller. The person is told once what helps."""
    store, llm = await temporary_store(), ScriptedLLM([], context_length=WINDOW)
    wordy = replace(nothing, description="word " * 2_500)
    agent = make_agent(llm, store.sessions, [wordy], auxiliary=ScriptedLLM([]))
    conversation = await store.sessions.open_conversation(Address("web", "desk"), person="owner")
    harness = AgentHarness(agent, llm, store.sessions, conversation.id, tmp_path)
    agent.auto_compaction.enabled = False
    for number in range(3):
        llm.then(reply(f"Answer {number}.", 3_600))
        await harness.say(f"Question {number}.")
    agent.auto_compaction.enabled = True
    [notice] = [event for _ in range(3) for event in await harness.hygiene()]
    assert isinstance(notice, Notice) and "Enable fewer tools" in notice.text
    assert len(await store.sessions.sessions(conversation.id)) == 1


def test_compactions_that_come_too_soon_widen_the_step() -> None:
    """Three in a row; it is said once; a long calm ends it."""
    pace = CompactionPace()
    told = []
    for answers in (30, 2, 2, 2, 2, 10):
        for _ in range(answers):
            pace.answered(1_000, 4_000)
        told.append(pace.compacted())
    assert told == [False, False, False, True, False, False]
    assert pace.is_wide, "ten answers are what the wider step gives"
    for _ in range(30):
        pace.answered(1_000, 4_000)
    assert pace.compacted() is False
    assert not pace.is_wide


async def test_a_new_session_begins_at_its_own_pace(tmp_path: Path) -> None:
    """Messages before `/new` do not fill the window any more."""
    harness = await open_agent(tmp_path, [], summaries=["## Goal\nTo test."] * 9)
    live = await harness.agent.open(await harness.store.conversation(harness.conversation_id))
    pace = harness.agent.auto_compaction.compactor.pace_of(live)
    for _ in range(5):
        pace.compacted()
    assert pace.is_wide
    runner = await harness.agent.auto_compaction.compactor.engines.get(live)
    assert await harness.agent.auto_compaction.compactor.due_from(live.conversation, runner) == WINDOW * 0.85
    await harness.store.split(Split(live.session.id, "reset"))
    await fill(harness, 1)
    assert await harness.agent.auto_compaction.compactor.due_from(live.conversation, runner) == WINDOW // 2


class Eager(ForeignEngine):
    """Says before every call, by the messages alone, that it wants to compact."""

    def should_compress_preflight(self, messages: list[ChatDict]) -> bool:
        return True

    def compress(self, messages: list[ChatDict]) -> list[ChatDict]:  # type: ignore[override]
        return [messages[0], messages[-1]]


@pytest.mark.parametrize(
    "engine",
    [lambda: ContextCompressor(WINDOW, threshold=0.0, protect_last_n=2), Eager],
    ids=["a threshold of zero", "a yes before every call"],
)
async def test_the_pace_also_slows_engines_that_always_want_to_compact(
    tmp_path: Path, engine: Callable[[], ContextEngine]
) -> None:
    """People are told that Hermes waits until the window is nearly full, and it does."""
    harness = await open_agent(tmp_path, [], summaries=["## Goal\nTo test."] * 30, engine=engine)
    happened, advised = [], 0
    for number in range(20):
        harness.llm.then(reply(f"Answer {number}. " + "detail " * 60, 500))
        events = await harness.say(f"Question {number}. " + "word " * 60)
        happened.append(compacted(events))
        advised += any(isinstance(event, Notice) and "From now on" in event.text for event in events)
    assert advised == 1
    assert sum(happened) <= 6, happened


@pytest.mark.parametrize("answers", [4, 8])
def test_an_ordinary_pace_is_left_alone(answers: int) -> None:
    """A long conversation in a small window is compacted often, and should be."""
    pace = CompactionPace()
    for _ in range(20):
        for _ in range(answers):
            pace.answered(1_000, 4_000)
        pace.compacted()
    assert not pace.is_wide
