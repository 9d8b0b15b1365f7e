"""Compaction through the real loop: when it happens, what is split, what survives."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from agent.auxiliary_client import Deadline
from agent.context.child_session import ChildSession, for_engine
from agent.context.drafts import Draft, Drafts
from agent.context.live import LiveContext
from agent.context_compressor import ContextCompressor
from agent.errors import AuthenticationFailed, ContextOverflow, LeaseLost
from agent.events import Compacted, Notice, TurnDone
from agent.llm import ChatRequest, Completion, Usage
from agent.messages import ChatDict, Message, ToolCall
from agent.store import Address, Conversation, Session
from agent.testing import Step
from agent.untrusted import wrap_untrusted
from tests.support.agent_harness import WINDOW, AgentHarness, ForeignEngine, fill, open_agent, reply
from tests.support.stores import temporary_store


async def test_the_session_is_split_when_the_window_is_half_full(tmp_path: Path) -> None:
    """The child knows its parent and why; the compaction has a row; nothing said is lost."""
    harness = await open_agent(tmp_path, [], summaries=["## Goal\nTo test."])
    await fill(harness, 12)
    parent = await harness.live()
    harness.llm.then(
        Completion("", (ToolCall("c1", "nothing", "{}"),), "tool_calls", Usage(2_100, 10)),
        reply("Done.", 900),
    )
    events = await harness.say("Now go on.")
    [compacted] = [event for event in events if isinstance(event, Compacted)]
    child = await harness.store.session(await harness.live())
    assert (child.parent_id, child.reason) == (parent, "compression")
    assert compacted.session_id == child.id
    assert compacted.messages_after < compacted.messages_before
    [(session_id, row)] = await harness.store.compactions(harness.conversation_id)
    assert (session_id, row.trigger, row.engine, row.outcome) == (child.id, "loop", "compressor", "ok")
    assert "To test." in str(harness.llm.requests[-1].messages)
    assert "Now go on." in str(harness.llm.requests[-1].messages)
    assert len(await harness.store.transcript(harness.conversation_id)) == 24 + 4
    assert events[-1] == TurnDone("Done.")


async def test_kept_messages_are_references(tmp_path: Path) -> None:
    """The child copies nothing: the newest messages keep their ids, and search finds each once."""
    harness = await open_agent(tmp_path, [], summaries=["## Goal\nTo test."])
    await fill(harness, 12)
    before = await harness.history()
    outcome = await harness.agent.auto_compaction.compactor.compact(
        await harness.agent.open(await harness.store.conversation(harness.conversation_id)), "command"
    )
    assert outcome.compacted
    after = await harness.history()
    assert [message.id for message in after[-2:]] == [message.id for message in before[-2:]]
    hits = await harness.store.search("Question 11", conversation_id=harness.conversation_id)
    assert len({hit.message.id for hit in hits}) == len(hits)


async def test_overflow_is_answered_by_compaction_and_one_retry(tmp_path: Path) -> None:
    """The person sees an answer, not the provider's complaint."""
    harness = await open_agent(tmp_path, [], summaries=["## Goal\nTo test."])
    await fill(harness, 12)
    harness.llm.then(ContextOverflow(), reply("It fits now.", 800))
    events = await harness.say("Too much?")
    assert any(isinstance(event, Compacted) for event in events)
    assert events[-1] == TurnDone("It fits now.")


async def test_overflow_that_compaction_cannot_help_is_told(tmp_path: Path) -> None:
    """One message larger than the window: no loop, an error."""
    harness = await open_agent(tmp_path, [ContextOverflow()])
    with pytest.raises(ContextOverflow):
        await harness.say("x")


async def test_a_refused_key_compacts_nothing_and_is_told_once(tmp_path: Path) -> None:
    """The person learns it once; the conversation goes on whole."""
    harness = await open_agent(tmp_path, [], summaries=[AuthenticationFailed(), AuthenticationFailed()])
    await fill(harness, 12)
    live = await harness.agent.open(await harness.store.conversation(harness.conversation_id))
    first = await harness.agent.auto_compaction.compact(live, "loop")
    second = await harness.agent.auto_compaction.compact(live, "loop")
    assert [type(event) for event in first] == [Notice]
    assert second == []
    assert len(await harness.store.sessions(harness.conversation_id)) == 1


async def test_hygiene_compacts_at_85_percent(tmp_path: Path) -> None:
    """A session that grew past the agent's own threshold is compacted before the agent sees the next message."""
    harness = await open_agent(tmp_path, [], summaries=["## Goal\nTo test."])
    harness.agent.auto_compaction.enabled = False
    await fill(harness, 12, tokens=3_300)
    harness.agent.auto_compaction.enabled = True
    assert await harness.hygiene() == []
    await harness.store.record_usage(await harness.live(), Usage(3_400, 1), model="m")
    events = await harness.hygiene()
    assert [type(event) for event in events] == [Compacted]
    assert (await harness.store.session(await harness.live())).reason == "hygiene"


async def test_hygiene_leaves_short_sessions_and_disabled_compression_alone(tmp_path: Path) -> None:
    """Fewer than four messages, or `compression.enabled: false`: nothing happens."""
    harness = await open_agent(tmp_path, [])
    harness.agent.auto_compaction.enabled = False
    await fill(harness, 1, tokens=3_900)
    harness.agent.auto_compaction.enabled = True
    assert await harness.hygiene() == []
    await fill(harness, 6, tokens=1_000)
    await harness.store.record_usage(await harness.live(), Usage(3_900, 1), model="m")
    harness.agent.auto_compaction.enabled = False
    assert await harness.hygiene() == []


async def test_a_turn_does_not_wait_for_a_slow_summary(tmp_path: Path) -> None:
    """From the softer threshold on the summary is written between the turns; it is used at the threshold."""
    release = threading.Event()
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(prompt: str, max_tokens: int) -> str:
        loop.call_soon_threadsafe(asked.set)
        assert release.wait(30)
        return "## Goal\nTo test."

    harness = await open_agent(
        tmp_path,
        [],
        engine=lambda: ContextCompressor(WINDOW, protect_last_n=2, summarize=slow),
        background_at=0.8,
    )
    await fill(harness, 12)
    harness.llm.then(reply("Near the edge.", 1_700))
    await harness.say("A")
    await asyncio.wait_for(asked.wait(), 5)
    harness.llm.then(reply("Still quick.", 1_750))
    events = await asyncio.wait_for(harness.say("B"), 5)
    assert events[-1] == TurnDone("Still quick."), "the turn did not wait for the summary"
    release.set()
    await harness.agent.auto_compaction.compactor.drafts.settled()
    harness.llm.then(reply("Not yet.", 1_900))
    events += await harness.say("C")
    assert not any(isinstance(event, Compacted) for event in events), "the threshold is 2,000"
    harness.llm.then(
        Completion("Looking.", (ToolCall("c1", "nothing", "{}"),), "tool_calls", Usage(2_000, 10)),
        reply("Smaller now.", 900),
    )
    events = await harness.say("D")
    assert any(isinstance(event, Compacted) for event in events)
    [(_, row)] = await harness.store.compactions(harness.conversation_id)
    assert (row.trigger, row.outcome) == ("background", "ok")
    texts = str(harness.llm.requests[-1].messages)
    assert all(said in texts for said in ("To test.", "Near the edge.", "Still quick.", "Not yet.", "'D'"))


async def test_a_draft_is_not_used_where_too_much_was_said_since(tmp_path: Path) -> None:
    """It would leave the conversation above the threshold; what was said since is summarised, too."""
    prompts: list[str] = []

    def note(prompt: str, max_tokens: int) -> str:
        prompts.append(prompt)
        return f"## Goal\nTo test {len(prompts)}."

    harness = await open_agent(
        tmp_path,
        [],
        engine=lambda: ContextCompressor(WINDOW, protect_last_n=2, summarize=note),
        background_at=0.8,
    )
    await fill(harness, 8)
    harness.llm.then(reply("Near the edge.", 1_700))
    await harness.say("A")
    await harness.agent.auto_compaction.compactor.drafts.settled()
    assert len(prompts) == 1
    harness.agent.auto_compaction.enabled = False
    await fill(harness, 10)
    harness.agent.auto_compaction.enabled = True
    await harness.store.record_usage(await harness.live(), Usage(3_300, 1), model="m")
    harness.llm.then(reply("Fine.", 900))
    await harness.say("B")
    assert "Near the edge." not in prompts[0] and "Near the edge." in prompts[1]
    sent = str(harness.llm.requests[-1].messages)
    assert "To test" in sent and "To test 1." not in sent


async def test_few_drafts_are_kept() -> None:
    """A draft holds the messages of a conversation, and most conversations near their threshold are idle."""
    store = (await temporary_store()).sessions
    drafts = Drafts(lambda conversation_id: None)
    lives = []
    for number in range(100):
        session = Session(f"s{number}", f"c{number}", None, None, 0.0)
        conversation = Conversation(f"c{number}", Address("web", str(number)), "owner", session.id, 0.0)
        live = LiveContext(store, conversation, session, [Message("user", "Hi", id="m")])
        given = for_engine("", live.history)

        async def made(given: list[ChatDict] = given, session: str = live.session.id) -> Draft:
            return Draft(session, given, ChildSession("", []))

        drafts.begin(live, 10, made(), Deadline())
        await drafts.settled()
        lives.append(live)
    kept = [live.session.id for live in lives if drafts.of(live)]
    assert kept == [live.session.id for live in lives[-len(kept) :]] and 0 < len(kept) < 100


async def test_what_went_wrong_with_a_draft_is_not_held_against_the_turn() -> None:
    """The lease was lost, or the disk was full, in another turn."""
    drafts = Drafts(lambda conversation_id: None)
    session = Session("s", "c", None, None, 0.0)
    conversation = Conversation("c", Address("web", "1"), "owner", "s", 0.0)
    live = LiveContext((await temporary_store()).sessions, conversation, session, [])

    async def lost() -> Draft:
        raise LeaseLost

    drafts.begin(live, 10, lost(), Deadline())
    assert await drafts.take(live, 1.0) is None


async def test_two_triggers_make_one_split(tmp_path: Path) -> None:
    """Hygiene, the loop and /compress on one conversation at the same time: the second finds it done."""
    harness = await open_agent(tmp_path, [], summaries=["## Goal\nTo test.", "## Goal\nTo test."])
    await fill(harness, 12)
    conversation = await harness.store.conversation(harness.conversation_id)
    one, two = await harness.agent.open(conversation), await harness.agent.open(conversation)
    compactor = harness.agent.auto_compaction.compactor
    outcomes = await asyncio.gather(compactor.compact(one, "loop"), compactor.compact(two, "command"))
    assert sum(outcome.compacted is not None for outcome in outcomes) == 1
    assert len(await harness.store.sessions(harness.conversation_id)) == 2


async def test_conversations_do_not_share_an_engine(tmp_path: Path) -> None:
    """Two interleaved conversations: nothing of one reaches the summary of the other."""
    seen: list[str] = []

    def note(prompt: str, max_tokens: int) -> str:
        seen.append(prompt)
        return "## Goal\nTo test."

    harness = await open_agent(
        tmp_path, [], engine=lambda: ContextCompressor(WINDOW, protect_last_n=2, summarize=note)
    )
    other = await harness.store.open_conversation(Address("web", "other"), person="owner")
    both = [harness, AgentHarness(harness.agent, harness.llm, harness.store, other.id, tmp_path)]
    for number in range(12):
        for place, word in zip(both, ("apple", "banana"), strict=True):
            harness.llm.then(reply(f"{word} " * 60, 500))
            await place.say(f"{number} {word} " * 30)
    for place in both:
        live = await harness.agent.open(await harness.store.conversation(place.conversation_id))
        await harness.agent.auto_compaction.compactor.compact(live, "command")
    apple, banana = seen
    assert "banana" not in apple
    assert "apple" not in banana


async def test_an_engine_by_a_stranger(tmp_path: Path) -> None:
    """Its tool is offered and dispatched with the messages; after a split it gets the new session."""
    engine = ForeignEngine()
    harness = await open_agent(tmp_path, [], engine=lambda: engine)
    await fill(harness, 2)
    call = ToolCall("c1", "count_word", '{"word": "heliotrope"}')
    harness.llm.then(Completion("", (call,), "tool_calls", Usage(2_500, 10)), reply("Once.", 100))
    parent = await harness.live()
    await harness.say("How often did I say heliotrope?")
    first, second = harness.llm.requests[-2:]
    assert "count_word" in [tool["function"]["name"] for tool in first.tools]
    assert second.messages[-1]["content"] == wrap_untrusted("1"), "it repeats what others said, too"
    child = await harness.live()
    assert engine.heard == [("start", parent, "", ""), ("start", child, parent, "compression")]


async def test_engines_are_told_of_real_boundaries(tmp_path: Path) -> None:
    """`/reset` ends the session and resets the engine; shutdown ends it; a split does neither."""

    class Listening(ForeignEngine):
        def on_session_end(self, session_id: str, messages: list[ChatDict]) -> None:
            self.heard.append(("end", session_id, len(messages)))

        def on_session_reset(self) -> None:
            self.heard.append(("reset",))

    engine = Listening()
    harness = await open_agent(tmp_path, [], engine=lambda: engine)
    await fill(harness, 1)
    first = await harness.live()
    conversation = await harness.store.conversation(harness.conversation_id)
    await harness.agent.reset(await harness.agent.open(conversation))
    await fill(harness, 1)
    await harness.agent.close()
    second = await harness.live()
    assert engine.heard == [
        ("start", first, "", ""),
        ("end", first, 3),
        ("reset",),
        ("start", second, first, "reset"),
        ("end", second, 3),
    ]


async def test_a_fallback_model_is_told_to_the_engine(tmp_path: Path) -> None:
    """Another model has another window; the thresholds follow."""
    harness = await open_agent(tmp_path, [])
    await fill(harness, 1)
    harness.llm.model, harness.llm.context_length = "scripted/other", 10_000
    await fill(harness, 1)
    live = await harness.agent.open(await harness.store.conversation(harness.conversation_id))
    engine = (await harness.agent.auto_compaction.compactor.engines.get(live)).engine
    assert (engine.context_length, engine.threshold_tokens) == (10_000, 5_000)


async def test_a_broken_engine_costs_no_turn(tmp_path: Path) -> None:
    """An engine that raises, or returns what no provider would take, is told once; the answer comes."""

    class Broken(ForeignEngine):
        def compress(self, messages: list[ChatDict]) -> list[ChatDict]:
            return [message for message in messages if message["role"] != "tool"]

        def get_tool_schemas(self) -> list[ChatDict]:
            return []

    harness = await open_agent(tmp_path, [], engine=Broken)
    await fill(harness, 4)
    call = ToolCall("c1", "nothing", "{}")
    harness.llm.then(Completion("", (call,), "tool_calls", Usage(2_500, 10)), reply("Fine.", 100))
    events = await harness.say("Go on")
    assert events[-1] == TurnDone("Fine.")
    assert any(isinstance(event, Notice) and "no model would accept" in event.text for event in events)


async def test_a_long_tool_run_is_compacted_more_than_once(tmp_path: Path) -> None:
    """One request, many tool calls: what the first compaction wrote must not keep the second from happening."""
    harness = await open_agent(tmp_path, [], summaries=[f"## Goal\nTo test {n}." for n in range(9)])
    text = "word " * 150
    for number in range(24):
        call = ToolCall(f"c{number}", "nothing", "{}")
        tokens = 2_100 if number % 8 == 7 else 500
        harness.llm.then(Completion(f"{number} {text}", (call,), "tool_calls", Usage(tokens, 10)))
    harness.llm.then(reply("Done.", 500))
    harness.agent.max_iterations = 30
    events = await harness.say("Work through it all.")
    assert sum(isinstance(event, Compacted) for event in events) >= 2
    assert not any(isinstance(event, Notice) for event in events)
    assert events[-1] == TurnDone("Done.")


async def test_compaction_that_does_not_help_is_not_repeated_every_turn(tmp_path: Path) -> None:
    """Usage that stays above the softer threshold does not cause a summary per turn."""
    asked: list[str] = []

    def note(prompt: str, max_tokens: int) -> str:
        asked.append(prompt)
        return "## Goal\nTo test."

    harness = await open_agent(
        tmp_path,
        [],
        engine=lambda: ContextCompressor(WINDOW, protect_last_n=2, summarize=note),
        background_at=0.8,
    )
    for tokens in (1_700, 2_500):
        asked.clear()
        for number in range(15):
            harness.llm.then(reply(f"Answer {number}. " + "detail " * 60, tokens))
            await harness.say(f"Question {number}. " + "word " * 60)
            await harness.agent.auto_compaction.compactor.drafts.settled()
        assert len(asked) <= 4


async def test_a_provider_that_reports_no_usage_is_compacted_by_estimate(tmp_path: Path) -> None:
    """Zeros are not a size."""
    harness = await open_agent(tmp_path, [], summaries=["## Goal\nTo test."] * 9)
    await fill(harness, 30, tokens=0)
    assert len(await harness.store.sessions(harness.conversation_id)) > 1


async def test_requests_extend_each_other_byte_for_byte(tmp_path: Path) -> None:
    """Between compactions every request begins with the one before: the provider's cache depends on it."""
    harness = await open_agent(tmp_path, [])
    await fill(harness, 6)
    for earlier, later in zip(harness.llm.requests, harness.llm.requests[1:], strict=False):
        assert later.messages[: len(earlier.messages)] == earlier.messages
        assert later.tools == earlier.tools


def _unused(request: ChatRequest) -> Step:
    raise AssertionError("no model is to be asked")


async def test_nothing_to_compress_asks_no_model(tmp_path: Path) -> None:
    """/compress on a short conversation answers at once."""
    harness = await open_agent(tmp_path, [reply("Hi.", 20)], summaries=[_unused])
    await harness.say("Hello")
    live = await harness.agent.open(await harness.store.conversation(harness.conversation_id))
    outcome = await harness.agent.auto_compaction.compactor.compact(live, "command")
    assert outcome.compacted is None
    assert outcome.detail == "There is nothing to compress yet: the newest messages always stay."
