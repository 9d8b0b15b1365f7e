"""An answer in a chat grows by edits, ends formatted, and continues in new messages."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest

from agent.events import Queued, TextDelta, ToolFinished, ToolStarted, TurnDone, TurnStarted
from gateway.chat.delivery.pacing import Timing
from gateway.chat.delivery.text_message import CURSOR
from gateway.chat.errors import SlowDown
from gateway.text.unicode import utf16_length
from tests.support.chat_harness import ALICE, FAST, GROUP, chat_room, reads_as
from tests.support.chat_service import ChatService

STORY = "\n\n".join(f"Paragraph {number}: " + "what happened next is told here. " * 4 for number in range(12))
CODE = (
    "Look:\n\n```python\n"
    + "\n".join(f"value_{number} = {number}" for number in range(80))
    + "\n```\n\nDone."
)


async def test_an_answer_grows_in_one_message() -> None:
    """Unfinished text is plain and has a cursor; the finished text is formatted and exact."""
    async with chat_room() as room:
        room.play(TurnStarted("msg", "hi"), TextDelta("**Hello** there, this is"))
        first = await room.sees("**Hello** there, this is")
        assert (first.text, first.formatted) == ("**Hello** there, this is" + CURSOR, False)
        room.play(TextDelta(" an answer"))
        await room.sees("this is an answer")
        room.play(TextDelta("."), TurnDone("**Hello** there, this is an answer."))
        (only,) = await room.ends()
        assert (only.text, only.formatted) == ("**Hello** there, this is an answer.", True)
        assert not only.silent


async def test_a_quick_answer_is_one_call() -> None:
    """Each of seventy turns at the real pace is sent once, formatted, without typing or edits, although its text and
    its end are two events."""
    service = ChatService(pace=1.0)
    clock = asyncio.get_running_loop().time
    async with chat_room(service, timing=Timing()) as room:
        for number in range(70):
            text = f"This is answer {number}, and it is **long enough** to be read."
            room.play(TurnStarted(f"m{number}", "hi"), TextDelta(text))
            for _ in range(10):  # the first part is processed before the end comes
                await asyncio.sleep(0)
            ended = clock()
            room.play(TurnDone(text))
            await room.sees(text)
            assert clock() - ended < 0.05
    assert [(call.verb, call.formatted) for call in service.calls] == [("send", True)] * 70


async def test_an_unfinished_answer_is_shown_after_a_moment() -> None:
    """The amount of text does not matter, because the end may be near."""
    async with chat_room() as room:
        began = asyncio.get_running_loop().time()
        room.play(TurnStarted("msg", "hi"), TextDelta("More than a few words, and there may be more"))
        message = await room.sees("there may be more")
        assert message.text == "More than a few words, and there may be more" + CURSOR
        assert room.service.calls_of("send")[0].at - began >= FAST.first_text


async def test_the_final_edit_comes_at_once() -> None:
    """One edit outside the pace does not burden a service."""
    service = ChatService(pace=3600.0)
    async with chat_room(service, timing=replace(FAST, message_gap=3600.0)) as room:
        room.play(TurnStarted("msg", "hi"), TextDelta("It begins like **this**"))
        message = await room.sees("It begins")
        room.play(TextDelta(" and ends."), TurnDone("It begins like **this** and ends."))
        await service.until(lambda: message.formatted)
        assert message.text == "It begins like **this** and ends."


async def test_after_a_rate_limit_the_final_edit_keeps_the_pace() -> None:
    """For a while after a rate limit no edit is early."""
    service = ChatService(pace=0.04)
    service.fail("send", SlowDown(0.001))
    async with chat_room(service, timing=replace(FAST, message_gap=10.0, max_edit_interval=10.0)) as room:
        room.play(TurnStarted("msg", "hi"), TextDelta("It begins"))
        message = await room.sees("It begins")
        room.play(TurnDone("It begins and ends."))
        await service.until(lambda: message.formatted)
        assert service.calls_of("edit")[0].at - service.calls_of("send")[-1].at >= 0.04


async def test_the_messages_of_a_long_text_keep_a_gap() -> None:
    """A dozen messages in one second would cause a rate limit."""
    async with chat_room(ChatService(pace=1.0), timing=replace(FAST, message_gap=0.02)) as room:
        room.answer(STORY)
        await room.ends()
        times = [call.at for call in room.service.calls_of("send")]
        assert len(times) > 3
        assert all(later - earlier >= 0.02 for earlier, later in pairwise(times))


async def test_edits_keep_the_pace_and_are_never_two_at_once() -> None:
    """Hundreds of chunks become few edits, with the pause between them that the service needs."""
    service = ChatService(pace=0.03)
    async with chat_room(service) as room:
        room.play(TurnStarted("msg", "hi"), TextDelta("The beginning of a text. "))
        await room.sees("beginning")
        for number in range(5):
            for _ in range(20):
                room.play(TextDelta("."))
            room.play(TextDelta(f"[{number}]"))
            await room.sees(f"[{number}]")
        edits = service.calls_of("edit")
        assert len(edits) == 5
        times = [service.calls_of("send")[0].at, *(edit.at for edit in edits)]
        assert all(later - earlier >= 0.03 for earlier, later in pairwise(times))


async def test_text_that_comes_during_a_call_is_shown_by_the_next() -> None:
    """A slow call delays only itself, and no text is lost."""
    async with chat_room() as room:
        slow = room.service.hold("send")
        room.play(TurnStarted("msg", "hi"), TextDelta("The first words of an answer"))
        await slow.reached.wait()
        assert slow.gate
        room.play(TextDelta(" and the rest"), TurnDone("The first words of an answer and the rest"))
        slow.gate.set()
        (only,) = await room.ends()
        assert (only.text, only.formatted) == ("The first words of an answer and the rest", True)


@pytest.mark.parametrize(
    "text", [STORY, CODE, "🎉" * 900, "x" * 1300], ids=["prose", "code", "emoji", "one word"]
)
@pytest.mark.parametrize("size", [7, 100_000], ids=["in small deltas", "at once"])
async def test_a_long_answer_continues_in_new_messages(text: str, size: int) -> None:
    """Each message is within the limit and formatted, and together they are the text."""
    service = ChatService(measure=utf16_length)
    async with chat_room(service) as room:
        room.play(TurnStarted("msg", "hi"))
        for begin in range(0, len(text), size):
            room.play(TextDelta(text[begin : begin + size]))
        room.play(TurnDone(text))
        await room.ends()
        messages = [message for message in service.messages if message.data is None]
        assert len(messages) > 2
        assert all(message.formatted for message in messages)
        assert reads_as(messages, text)


async def test_a_full_message_is_finished_while_the_answer_grows() -> None:
    """The beginning of a long answer is formatted before its end arrives."""
    async with chat_room() as room:
        room.play(TurnStarted("msg", "hi"))
        for begin in range(0, len(STORY), 50):
            room.play(TextDelta(STORY[begin : begin + 50]))
        await room.service.until(lambda: len(room.service.messages) > 3)
        assert [message.formatted for message in room.service.messages[:3]] == [True, True, True]
        assert all(CURSOR not in message.text for message in room.service.messages[:3])
        room.play(TurnDone(STORY))
        assert reads_as(await room.ends(), STORY)


async def test_code_over_two_messages_is_fenced_in_both() -> None:
    """A split code block is closed and reopened with its language."""
    async with chat_room() as room:
        room.answer(CODE)
        messages = [message.text for message in await room.ends() if message.data is None]
        assert messages[0].endswith("\n```")
        assert all(text.startswith("```python\n") for text in messages[1:-1])


async def test_every_step_has_its_own_message() -> None:
    """Text before a tool call is finished when the tool starts; text after it is another message."""
    async with chat_room() as room:
        room.play(TurnStarted("msg", "hi"), TextDelta("Let me look."), ToolStarted("c1", "read_file", "{}"))
        message = await room.sees("Let me look.")
        await room.service.until(lambda: message.formatted)
        room.play(
            ToolFinished("c1", "read_file", True, "", 0.0),
            TextDelta("It says *hi*."),
            TurnDone("It says *hi*."),
        )
        assert [message.text for message in await room.ends()] == ["Let me look.", "It says *hi*."]


async def test_an_answer_that_was_not_streamed_is_sent_whole() -> None:
    """If the text comes only with the end of the turn, it is shown from there."""
    async with chat_room() as room:
        room.play(TurnStarted("msg", "hi"), TurnDone("All of it."))
        assert [message.text for message in await room.ends()] == ["All of it."]


async def test_a_missing_end_is_added() -> None:
    """The visible text equals the stored text, even if the last chunks never came."""
    async with chat_room() as room:
        room.play(TurnStarted("msg", "hi"), TextDelta("All of"), TurnDone("All of it."))
        assert [message.text for message in await room.ends()] == ["All of it."]


async def test_blank_lines_before_a_tool_call_send_nothing() -> None:
    """Models begin with blank lines, which the service would refuse; the reply is kept for the text."""
    async with chat_room(place=GROUP) as room:
        room.delivery.map_reply("msg", "p1")
        room.play(TurnStarted("msg", "hi"), TextDelta("\n\n"), ToolStarted("c1", "todo", "{}"))
        room.play(
            ToolFinished("c1", "todo", True, "", 0.0),
            TextDelta("\n"),
            TextDelta("Done."),
            TurnDone("\nDone."),
        )
        (only,) = await room.ends()
        assert only.text.strip() == "Done."
        assert only.reply_to == "p1"


async def test_a_command_without_an_answer_shows_nothing() -> None:
    """A turn that only ran a command ends with empty text."""
    async with chat_room() as room:
        room.play(TurnStarted("msg", "/status"), TurnDone(""))
        assert await room.ends() == []


@pytest.mark.parametrize(("can_edit", "streaming"), [(False, True), (True, False)])
async def test_without_streaming_only_complete_messages_appear(can_edit: bool, streaming: bool) -> None:
    """Without edits, only the typing indicator is visible before the answer."""
    service = ChatService(can_edit=can_edit)
    async with chat_room(service, streaming=streaming) as room:
        room.play(TurnStarted("msg", "hi"), TextDelta(STORY))
        await service.until(lambda: len(service.calls_of("typing")) > 2)
        assert service.messages == []
        room.play(TurnDone(STORY))
        assert reads_as(await room.ends(), STORY)
        assert service.calls_of("edit") == []
        assert all(message.formatted for message in service.messages)


async def test_streaming_can_be_switched_between_turns() -> None:
    """The next answer in the same conversation follows the new setting."""
    async with chat_room() as room:
        room.answer("One.")
        await room.sees("One.")
        room.delivery.set_streaming(on=False)
        edits = len(room.service.calls_of("edit"))
        room.play(TurnStarted("next", "hi"), TextDelta(STORY))
        await room.service.until(lambda: len(room.service.calls_of("typing")) > 2)
        assert room.service.texts() == ["One."]
        room.play(TurnDone(STORY))
        assert reads_as((await room.ends())[1:], STORY)
        assert len(room.service.calls_of("edit")) == edits


async def test_in_a_group_an_answer_is_a_reply() -> None:
    """Only its first message is a reply."""
    async with chat_room(place=GROUP) as room:
        room.delivery.map_reply("msg", "p1")
        room.answer(STORY)
        replies = [message.reply_to for message in await room.ends()]
        assert replies == ["p1", *[""] * (len(replies) - 1)]


@pytest.mark.parametrize(("waited", "reply_to"), [(True, "p2"), (False, "")])
async def test_in_a_direct_chat_only_a_queued_message_gets_a_reply(waited: bool, reply_to: str) -> None:
    """After a queue the reply shows which message is answered; otherwise that is obvious."""
    async with chat_room(place=ALICE) as room:
        room.delivery.map_reply("m2", "p2")
        room.play(TurnStarted("m1", "one"))
        if waited:
            room.play(Queued("m2", "two", "queue", 1))
        room.play(TurnDone("first"), TurnStarted("m2", "two"), TurnDone("second"))
        messages = {message.text: message.reply_to for message in await room.ends()}
        assert messages == {"first": "", "second": reply_to}
