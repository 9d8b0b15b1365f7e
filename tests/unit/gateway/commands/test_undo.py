"""`/undo` and `/retry`: the last exchange leaves the context, but not the store."""

from __future__ import annotations

import asyncio

from agent.events import TextDelta, TurnDone
from agent.llm import Completion
from agent.messages import Message, ToolCall, is_paired
from agent.store import Split
from tests.support.command_harness import CommandHarness

NOTHING = "There is nothing to undo. Nothing has been said in this session yet."


async def test_the_last_exchange_leaves_the_context(harness: CommandHarness) -> None:
    """The store keeps it, and /resume brings it back."""
    await harness.talk("tea", "milk")
    left, whole = await harness.live(), await harness.history()
    told = await harness.say("/undo")
    assert told.startswith("Taken out: “Tell me of milk. word")
    assert f"`/resume {left}` restores this one" in told
    assert await harness.history() == whole[:2]
    await harness.talk("honey")
    assert "milk" not in str(harness.llm.requests[-1].messages)
    assert await harness.store.sessions.search("milk", conversation_id=harness.conversation_id)
    await harness.say(f"/resume {left}")
    assert await harness.history() == whole


async def test_repeated_it_goes_further_back_to_the_beginning(harness: CommandHarness) -> None:
    """It does not go back beyond a reset."""
    await harness.talk("salt")
    await harness.say("/reset")
    assert await harness.say("/undo") == NOTHING
    await harness.talk("tea", "milk", "honey")
    left: list[list[str]] = []
    for _ in range(3):
        await harness.say("/undo")
        left.append(await harness.subjects())
    assert left == [["tea", "milk"], ["tea"], []]
    assert await harness.say("/undo") == NOTHING
    listed = (await harness.say("/sessions")).splitlines()
    assert len(listed) == 5, "the steps in between are no lines of their own"


async def test_tool_calls_go_with_their_question(harness: CommandHarness) -> None:
    call = ToolCall("c1", "todo", '{"action": "list"}')
    harness.llm.then("Fine.", Completion("", (call,), "tool_calls"), "Done.")
    await harness.say("How are you?")
    await harness.say("Use a tool.")
    assert [message.role for message in await harness.history()][2:] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    await harness.say("/undo")
    assert [message.content for message in await harness.history()] == ["How are you?", "Fine."]


async def test_a_call_left_open_by_a_crash_is_closed(harness: CommandHarness) -> None:
    """The remaining history has a result for each tool call."""
    await harness.talk("tea")
    call = ToolCall("c1", "read_file", "{}")
    said = [Message("user", "Read it."), Message("assistant", tool_calls=(call,)), Message("user", "Well?")]
    await harness.store.sessions.append(await harness.live(), said)
    await harness.say("/undo")
    harness.llm.then("It says so.")
    await harness.say("And now?")
    assert is_paired(harness.llm.requests[-1].messages)
    assert "Well?" not in str(harness.llm.requests[-1].messages)


async def test_what_is_only_in_a_summary_is_left_there(harness: CommandHarness) -> None:
    """The answer names /undo-compress, after which /undo works again."""
    await harness.talk(*(f"tea{number}" for number in range(12)))
    await harness.say("/compress")
    kept = await harness.subjects()
    undone = 0
    while (told := await harness.say("/undo")).startswith("Taken out"):
        undone += 1
    assert 0 < undone < 12
    assert "Use /undo-compress first" in told
    assert "Undone" in await harness.say("/undo-compress")
    assert await harness.subjects() == [f"tea{number}" for number in range(12 - undone)]
    assert set(kept[-undone:]).isdisjoint(await harness.subjects())
    await harness.say("/undo")
    assert await harness.subjects() == [f"tea{number}" for number in range(11 - undone)]


async def test_the_head_before_a_summary_is_not_the_last_exchange(harness: CommandHarness) -> None:
    """A first message that a compaction kept does not take the summary with it."""
    await harness.talk("tea")
    first = await harness.history()
    summary = Message("user", "[CONTEXT COMPACTION] More was said.", kind="summary")
    context: list[str | Message] = [*(message.id for message in first), summary]
    await harness.store.sessions.split(Split(await harness.live(), "compression", context, "Be brief."))
    assert "/undo-compress" in await harness.say("/undo")
    assert len(await harness.history()) == 3


async def test_an_undo_is_not_taken_back_by_undoing_a_compaction(harness: CommandHarness) -> None:
    await harness.talk(*(f"tea{number}" for number in range(12)))
    await harness.say("/compress")
    await harness.say("/undo")
    await harness.say("/undo-compress")
    assert await harness.subjects() == [f"tea{number}" for number in range(11)]


async def test_what_was_said_on_the_other_side_of_a_branch_stays_there(harness: CommandHarness) -> None:
    """Undoing a compaction in the branch does not bring later messages of the trunk."""
    await harness.talk(*(f"tea{number}" for number in range(12)))
    await harness.say("/compress")
    trunk = await harness.live()
    await harness.say("/branch")
    branch = await harness.live()
    await harness.talk("milk")
    await harness.say(f"/resume {trunk}")
    await harness.talk("honey")
    await harness.say(f"/resume {branch}")
    await harness.say("/undo-compress")
    assert await harness.subjects() == [*(f"tea{number}" for number in range(12)), "milk"]


async def test_retry_asks_the_same_again(harness: CommandHarness) -> None:
    """The model sees the question once, without the earlier answer."""
    harness.llm.then("Hello.", "Forty-one.", "Forty-two.")
    await harness.say("Hi.")
    await harness.say("What is six times seven?")
    assert await harness.say("/retry") == "Once more: “What is six times seven?”\nForty-two."
    asked = [message["content"] for message in harness.llm.requests[-1].messages[1:]]
    assert asked == ["Hi.", "Hello.", "What is six times seven?"]
    said = [message.content for message in await harness.history()]
    assert said == ["Hi.", "Hello.", "What is six times seven?", "Forty-two."]


async def test_retry_after_a_stop(harness: CommandHarness) -> None:
    """The next attempt does not contain the stopped answer."""
    harness.llm.then(["Half an", asyncio.Event()], "A whole answer.")
    await harness.send("Speak.")
    await harness.until(TextDelta)
    await harness.send("/stop")
    await harness.until(TurnDone)
    assert (await harness.say("/retry")).endswith("A whole answer.")
    assert "Half an" not in str(harness.llm.requests[-1].messages)


async def test_retry_sends_pictures_again(harness: CommandHarness) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    parts = ({"type": "text", "text": "What is this?"}, picture)
    harness.llm.then("Hello.", "A cat.")
    await harness.say("Hi.")
    await harness.store.sessions.append(await harness.live(), [Message("user", "What is this?", parts)])
    await harness.say("/retry")
    assert harness.llm.requests[-1].messages[-1]["content"] == list(parts)


async def test_retry_sends_the_whole_of_a_message_that_was_shortened(harness: CommandHarness) -> None:
    """The context holds a truncated copy; the retry sends the original."""
    harness.llm.then("Hello.", "I have read it all.")
    await harness.say("Read: " + "word " * 200)
    [said, answer] = await harness.history()
    copy = Message("user", "Read: word …", kind="pruned", source_id=said.id)
    await harness.store.sessions.split(
        Split(await harness.live(), "compression", [copy, answer.id], "Be brief.")
    )
    await harness.say("/retry")
    assert harness.llm.requests[-1].messages[-1]["content"] == said.content


async def test_nothing_to_retry(harness: CommandHarness) -> None:
    told = await harness.say("/retry")
    assert told == "There is nothing to try again. Nothing has been said in this session yet."
    assert harness.llm.requests == []
