"""`/undo` and `/retry`: the last exchange leaves the context, and nothing leaves the store."""

from __future__ import annotations

import asyncio

from agent.events import TextDelta, TurnDone
from agent.llm import Completion
from agent.messages import Message, ToolCall, is_paired
from agent.store import Split
from tests.support.command_harness import CommandHarness

NOTHING = "There is nothing to undo. Nothing has been said in this session yet."


async def test_the_last_exchange_leaves_the_context(desk: CommandHarness) -> None:
    """The model does not see it any more; the store has it, and /resume brings it back."""
    await desk.talk("tea", "milk")
    left, whole = await desk.live(), await desk.history()
    told = await desk.say("/undo")
    assert told.startswith("Taken out: “Tell me of milk. word")
    assert f"`/resume {left}` brings it back" in told
    assert await desk.history() == whole[:2]
    await desk.talk("honey")
    assert "milk" not in str(desk.llm.requests[-1].messages)
    assert await desk.store.sessions.search("milk", conversation_id=desk.conversation_id)
    await desk.say(f"/resume {left}")
    assert await desk.history() == whole


async def test_repeated_it_goes_further_back_to_the_beginning(desk: CommandHarness) -> None:
    """And then there is nothing left; not even what was said before a reset."""
    await desk.talk("salt")
    await desk.say("/reset")
    assert await desk.say("/undo") == NOTHING
    await desk.talk("tea", "milk", "honey")
    left: list[list[str]] = []
    for _ in range(3):
        await desk.say("/undo")
        left.append(await desk.subjects())
    assert left == [["tea", "milk"], ["tea"], []]
    assert await desk.say("/undo") == NOTHING
    listed = (await desk.say("/sessions")).splitlines()
    assert len(listed) == 5, "the steps in between are no lines of their own"


async def test_tool_calls_go_with_their_question(desk: CommandHarness) -> None:
    """What remains is a history that every provider takes."""
    call = ToolCall("c1", "todo", '{"action": "list"}')
    desk.llm.then("Fine.", Completion("", (call,), "tool_calls"), "Done.")
    await desk.say("How are you?")
    await desk.say("Use a tool.")
    assert [message.role for message in await desk.history()][2:] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    await desk.say("/undo")
    assert [message.content for message in await desk.history()] == ["How are you?", "Fine."]


async def test_a_call_left_open_by_a_crash_is_closed(desk: CommandHarness) -> None:
    """The seam of an undo is where a result may be missing."""
    await desk.talk("tea")
    call = ToolCall("c1", "read_file", "{}")
    said = [Message("user", "Read it."), Message("assistant", tool_calls=(call,)), Message("user", "Well?")]
    await desk.store.sessions.append(await desk.live(), said)
    await desk.say("/undo")
    desk.llm.then("It says so.")
    await desk.say("And now?")
    assert is_paired(desk.llm.requests[-1].messages)
    assert "Well?" not in str(desk.llm.requests[-1].messages)


async def test_what_is_only_in_a_summary_is_left_there(desk: CommandHarness) -> None:
    """/undo-compress is named, and after it /undo goes on; what was undone before stays out."""
    await desk.talk(*(f"tea{number}" for number in range(12)))
    await desk.say("/compress")
    kept = await desk.subjects()
    undone = 0
    while (told := await desk.say("/undo")).startswith("Taken out"):
        undone += 1
    assert 0 < undone < 12
    assert "/undo-compress brings it back" in told
    assert "Undone" in await desk.say("/undo-compress")
    assert await desk.subjects() == [f"tea{number}" for number in range(12 - undone)]
    assert set(kept[-undone:]).isdisjoint(await desk.subjects())
    await desk.say("/undo")
    assert await desk.subjects() == [f"tea{number}" for number in range(11 - undone)]


async def test_the_head_before_a_summary_is_not_the_last_exchange(desk: CommandHarness) -> None:
    """A first message that a compaction kept does not take the whole summary with it."""
    await desk.talk("tea")
    first = await desk.history()
    summary = Message("user", "[CONTEXT COMPACTION] More was said.", kind="summary")
    context: list[str | Message] = [*(message.id for message in first), summary]
    await desk.store.sessions.split(Split(await desk.live(), "compression", context, "Be brief."))
    assert "/undo-compress" in await desk.say("/undo")
    assert len(await desk.history()) == 3


async def test_an_undo_is_not_taken_back_by_undoing_a_compaction(desk: CommandHarness) -> None:
    """Also where nothing else was said since the compaction."""
    await desk.talk(*(f"tea{number}" for number in range(12)))
    await desk.say("/compress")
    await desk.say("/undo")
    await desk.say("/undo-compress")
    assert await desk.subjects() == [f"tea{number}" for number in range(11)]


async def test_what_was_said_on_the_other_side_of_a_branch_stays_there(desk: CommandHarness) -> None:
    """Undoing a compaction in the branch does not bring what the trunk said later."""
    await desk.talk(*(f"tea{number}" for number in range(12)))
    await desk.say("/compress")
    trunk = await desk.live()
    await desk.say("/branch")
    branch = await desk.live()
    await desk.talk("milk")
    await desk.say(f"/resume {trunk}")
    await desk.talk("honey")
    await desk.say(f"/resume {branch}")
    await desk.say("/undo-compress")
    assert await desk.subjects() == [*(f"tea{number}" for number in range(12)), "milk"]


async def test_retry_asks_the_same_again(desk: CommandHarness) -> None:
    """The model sees the question once and not the answer that was not wanted."""
    desk.llm.then("Hello.", "Forty-one.", "Forty-two.")
    await desk.say("Hi.")
    await desk.say("What is six times seven?")
    assert await desk.say("/retry") == "Once more: “What is six times seven?”\nForty-two."
    asked = [message["content"] for message in desk.llm.requests[-1].messages[1:]]
    assert asked == ["Hi.", "Hello.", "What is six times seven?"]
    said = [message.content for message in await desk.history()]
    assert said == ["Hi.", "Hello.", "What is six times seven?", "Forty-two."]


async def test_retry_after_a_stop(desk: CommandHarness) -> None:
    """What had been shown of the stopped answer is not part of the next attempt."""
    desk.llm.then(["Half an", asyncio.Event()], "A whole answer.")
    await desk.send("Speak.")
    await desk.until(TextDelta)
    await desk.send("/stop")
    await desk.until(TurnDone)
    assert (await desk.say("/retry")).endswith("A whole answer.")
    assert "Half an" not in str(desk.llm.requests[-1].messages)


async def test_retry_sends_pictures_again(desk: CommandHarness) -> None:
    """A message is more than its text."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    parts = ({"type": "text", "text": "What is this?"}, picture)
    desk.llm.then("Hello.", "A cat.")
    await desk.say("Hi.")
    await desk.store.sessions.append(await desk.live(), [Message("user", "What is this?", parts)])
    await desk.say("/retry")
    assert desk.llm.requests[-1].messages[-1]["content"] == list(parts)


async def test_retry_sends_the_whole_of_a_message_that_was_shortened(desk: CommandHarness) -> None:
    """The context holds a bounded copy; what is asked again is what was said."""
    desk.llm.then("Hello.", "I have read it all.")
    await desk.say("Read: " + "word " * 200)
    [said, answer] = await desk.history()
    copy = Message("user", "Read: word …", kind="pruned", source_id=said.id)
    await desk.store.sessions.split(Split(await desk.live(), "compression", [copy, answer.id], "Be brief."))
    await desk.say("/retry")
    assert desk.llm.requests[-1].messages[-1]["content"] == said.content


async def test_nothing_to_retry(desk: CommandHarness) -> None:
    """A sentence, and no model is asked."""
    told = await desk.say("/retry")
    assert told == "There is nothing to try again. Nothing has been said in this session yet."
    assert desk.llm.requests == []
