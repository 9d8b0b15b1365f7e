"""An engine's hint: a note behind what the person said, for the model alone."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent.context.child_session import child_session_from, for_engine
from agent.context_compressor import ContextCompressor
from agent.errors import InvalidCompaction
from agent.events import Compacted, Notice, TurnDone
from agent.loop import Turn
from agent.messages import ChatDict, Message, ToolCall
from tests.support.agent_harness import AgentHarness, ForeignEngine, fill, open_agent, reply


class Hinting(ForeignEngine):
    """Has something to say about every message, and keeps what it was asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[ChatDict]] = []

    def hint(self, messages: list[ChatDict]) -> str | None:
        self.asked.append(messages)
        return f"[You spoke of this before: {len(self.asked)}]"

    def get_tool_schemas(self) -> list[ChatDict]:
        return []


async def hinted(tmp_path: Path, engine: ForeignEngine) -> AgentHarness:
    return await open_agent(tmp_path, [], engine=lambda: engine)


def contents(messages: list[ChatDict]) -> list[str]:
    return [message["content"] for message in messages]


async def test_a_hint_stands_behind_the_message_and_stays_there(tmp_path: Path) -> None:
    """The model reads it last; each request begins with the whole of the one before."""
    harness = await hinted(tmp_path, Hinting())
    for number in range(3):
        harness.llm.then(reply(f"Answer {number}.", 100))
        await harness.say(f"Question {number}.")
    first, second, third = (request.messages for request in harness.llm.requests)
    assert contents(first)[1:] == ["Question 0.", "[You spoke of this before: 1]"]
    assert (second[: len(first)], third[: len(second)]) == (first, second)
    assert contents(third)[-2:] == ["Question 2.", "[You spoke of this before: 3]"]
    assert [message["role"] for message in third[-2:]] == ["user", "user"]
    said = [message.content for message in await harness.store.transcript(harness.conversation_id)]
    assert len(said) == 6 and not any("before" in text for text in said)


async def test_the_engine_sees_the_message_and_its_own_hints(tmp_path: Path) -> None:
    """As any other message, with ids: what it is asked about comes last."""
    engine = Hinting()
    harness = await hinted(tmp_path, engine)
    harness.llm.then(reply("One.", 100), reply("Two.", 100))
    await harness.say("A")
    await harness.say("B")
    assert contents(engine.asked[1])[1:] == ["A", "[You spoke of this before: 1]", "One.", "B"]
    assert all("message_id" in message for message in engine.asked[1][1:])


async def test_a_hint_comes_after_a_compaction(tmp_path: Path) -> None:
    """It is about what is left, and belongs to the child session."""
    engine = Hinting()
    harness = await hinted(tmp_path, engine)
    await fill(harness, 3, tokens=2_500)
    harness.llm.then(reply("Done.", 100))
    events = await harness.say("Go on.")
    assert any(isinstance(event, Compacted) for event in events)
    assert len(engine.asked[-1]) == 5, "the system prompt, three messages that were kept, and the new one"
    [*_, note, _] = await harness.history()
    assert (note.kind, note.session_id) == ("note", await harness.live())


async def test_hints_do_not_depend_on_compaction(tmp_path: Path) -> None:
    """`compression.enabled: false` switches off what is compacted unasked, and nothing else."""
    harness = await hinted(tmp_path, Hinting())
    harness.agent.auto_compaction.enabled = False
    harness.llm.then(reply("Yes.", 100))
    await harness.say("A")
    assert [message.kind for message in await harness.history()] == ["said", "note", "said"]


async def test_a_turn_that_is_taken_up_again_gets_no_second_hint(tmp_path: Path) -> None:
    """Hermes was stopped after the hint was stored; the message is not new any more."""
    engine = Hinting()
    harness = await hinted(tmp_path, engine)
    conversation = await harness.store.conversation(harness.conversation_id)
    message = Message("user", "A")
    live = await harness.agent.accept(Turn(conversation, message, harness.workspace))
    await harness.agent.auto_compaction.before_turn(live)
    harness.llm.then(reply("Yes.", 100))
    again = Turn(conversation, message, harness.workspace, has_begun=True)
    assert [event async for event in harness.agent.run(again)][-1] == TurnDone("Yes.")
    assert [each.kind for each in await harness.history()] == ["said", "note", "said"]
    assert len(engine.asked) == 1


@pytest.mark.parametrize("hint", [None, "", " \n", 7, "word " * 2_000, RuntimeError("a bug")])
async def test_what_is_no_hint_is_left_out(tmp_path: Path, hint: object) -> None:
    """Nothing, too much, or a fault of the engine: the turn goes on, and the person hears nothing of it."""

    class Odd(Hinting):
        def hint(self, messages: list[ChatDict]) -> str | None:
            if isinstance(hint, Exception):
                raise hint
            return hint  # type: ignore[return-value]

    harness = await hinted(tmp_path, Odd())
    harness.llm.then(reply("Yes.", 100))
    with capture_logs() as logs:
        events = await harness.say("A")
    assert events[-1] == TurnDone("Yes.") and not any(isinstance(event, Notice) for event in events)
    assert [message.kind for message in await harness.history()] == ["said", "said"]
    told = [line["event"] for line in logs if line["event"].startswith("engine.")]
    expected = {str: ["engine.hint_too_long"], RuntimeError: ["engine.failed"], int: ["engine.failed"]}
    assert told == (expected.get(type(hint), []) if not isinstance(hint, str) or len(hint) > 100 else [])


async def test_a_hint_of_a_thousand_tokens_is_kept(tmp_path: Path) -> None:
    """The limit is the first size that is too much."""

    class Long(Hinting):
        def hint(self, messages: list[ChatDict]) -> str | None:
            return "word" * 1_000

    harness = await hinted(tmp_path, Long())
    harness.llm.then(reply("Yes.", 100))
    await harness.say("A")
    assert [message.kind for message in await harness.history()] == ["said", "note", "said"]


async def test_a_turn_does_not_wait_for_a_slow_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even in the first turn, right after the engine began. A hint that comes too late is left out."""
    monkeypatch.setattr("agent.context.auto_compaction.HINT_SECONDS", 0.1)
    release = threading.Event()

    class Late(Hinting):
        def hint(self, messages: list[ChatDict]) -> str | None:
            assert release.wait(30)
            return super().hint(messages)

    harness = await hinted(tmp_path, Late())
    harness.agent.auto_compaction.enabled = False
    live = await harness.agent.open(await harness.store.conversation(harness.conversation_id))
    live.history += await harness.store.append(live.session.id, [Message("user", "A")])
    try:
        async with asyncio.timeout(20):
            assert await harness.agent.auto_compaction.before_turn(live) == []
    finally:
        release.set()
    assert [message.kind for message in live.history] == ["said"]


async def test_a_turn_does_not_wait_for_a_hint_of_a_busy_engine(tmp_path: Path) -> None:
    """While it compacts in the background, turns go on without hints."""
    release, began = threading.Event(), threading.Event()

    class Blocked(Hinting):
        def on_session_reset(self) -> None:
            began.set()
            assert release.wait(30)

    engine = Blocked()
    harness = await hinted(tmp_path, engine)
    harness.llm.then(reply("Yes.", 100), reply("Again.", 100))
    await harness.say("A")
    live = await harness.agent.open(await harness.store.conversation(harness.conversation_id))
    runner = await harness.agent.auto_compaction.compactor.engines.get(live)
    busy = asyncio.create_task(runner.on_session_reset())
    await asyncio.to_thread(began.wait, 10)
    harness.agent.auto_compaction.enabled = False
    live.history += await harness.store.append(live.session.id, [Message("user", "B")])
    with capture_logs() as logs:
        await harness.agent.auto_compaction.before_turn(live)
    release.set()
    await busy
    assert len(engine.asked) == 1 and live.history[-1].content == "B"
    assert logs == [], "it was not even tried"


def test_a_note_is_never_the_newest_request() -> None:
    """An engine may drop it, and may not drop the request before it."""
    history = [
        Message("user", "Earlier."),
        Message("assistant", "Yes."),
        Message("user", "Newest."),
        Message("user", "[hint]", kind="note"),
    ]
    given = for_engine("Be brief.", history)
    plan = child_session_from(given, [given[0], given[3]], history)
    assert plan is not None and plan.context == [history[2].id]
    with pytest.raises(InvalidCompaction, match="newest request"):
        child_session_from(given, given[:3], history)


@pytest.mark.parametrize("protected", [2, 20])
def test_an_engine_that_takes_the_note_for_the_request_keeps_both(protected: int) -> None:
    """In the middle of a long turn, the note is the newest message in the name of the user."""
    history = [Message("user", "Compare them. " + "word " * 60), Message("user", "[hint]", kind="note")]
    for number in range(12):
        call = ToolCall(f"c{number}", "read_file", "{}")
        history.append(Message("assistant", tool_calls=(call,)))
        history.append(Message("tool", "line " * 400, tool_call_id=call.id))
    earlier = [Message(role, "word " * 60) for role in ("user", "assistant") * 20]  # type: ignore[arg-type]
    history = [*earlier, *history]
    given = for_engine("Be brief.", history)
    engine = ContextCompressor(
        4_000, protect_last_n=protected, summarize=lambda prompt, most: "## Goal\nTo test."
    )
    plan = child_session_from(given, engine.compress(given), history)
    assert plan is not None and len(plan.context) < len(history) // 2
    request, note = (plan.context.index(history[index].id) for index in (len(earlier), len(earlier) + 1))
    assert note == request + 1


def test_a_note_that_an_engine_changes_stays_a_note() -> None:
    """And a shortened message keeps its time: both are copies, not something new."""
    history = [
        Message("user", "Earlier.", created_at=5.0),
        Message("user", "Newest."),
        Message("user", "[hint]", kind="note", created_at=9.0),
    ]
    given = for_engine("Be brief.", history)
    plan = child_session_from(
        given, [given[0], {**given[1], "content": "E."}, given[2], {**given[3], "content": "[h]"}], history
    )
    assert plan is not None
    pruned, kept, note = plan.context
    assert kept == history[1].id
    assert isinstance(pruned, Message) and isinstance(note, Message)
    assert (pruned.kind, pruned.source_id, pruned.created_at) == ("pruned", history[0].id, 5.0)
    assert (note.kind, note.source_id, note.created_at) == ("note", history[2].id, 9.0)
