"""Signs of activity: typing indicator, tool status, queued notice."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from agent.events import (
    Notice,
    Queued,
    Steered,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnFailed,
    TurnStarted,
)
from gateway.chat.delivery.status_message import tool_status_text
from gateway.chat.errors import DeliveryError, MessageGone, SlowDown, Undeliverable, Unreachable
from tests.support.chat_harness import FAST, GROUP, chat_room
from tests.support.chat_service import ChatService

BEGIN = TurnStarted("msg", "hi")
QUICK_LINE = replace(FAST, status_after=0.0)


def _start(
    call_id: str = "c1", name: str = "terminal", arguments: str = '{"command": "ls -la"}'
) -> ToolStarted:
    return ToolStarted(call_id, name, arguments)


def _end(call_id: str = "c1", name: str = "terminal") -> ToolFinished:
    return ToolFinished(call_id, name, True, "", 2.0)


# -- typing indicator ----------------------------------------------------------------------------------------


async def test_typing_is_repeated_until_text_is_visible() -> None:
    """The indicator lasts while the model thinks and ends when text is visible."""
    service = ChatService()
    async with chat_room(service) as room:
        room.play(BEGIN)
        await service.until(lambda: len(service.calls_of("typing")) >= 3)
        room.play(TextDelta("Now there is enough of it to be read."))
        await room.sees("Now there is")
        before = len(service.calls_of("typing"))
        for number in range(4):
            room.play(TextDelta(f" [{number}]"))
            await room.sees(f"[{number}]")
        assert len(service.calls_of("typing")) <= before + 1
    times = [call.at for call in service.calls_of("typing")]
    assert all(later - earlier >= FAST.typing_every for earlier, later in pairwise(times))


@pytest.mark.parametrize(
    "error", [Unreachable(), SlowDown(0.1), Undeliverable()], ids=lambda error: type(error).__name__
)
async def test_a_failed_typing_call_pauses_the_indicator(error: DeliveryError) -> None:
    """The answer still comes, and the indicator is not tried again at once."""
    service = ChatService()
    async with chat_room(service) as room:
        service.fail("typing", error, permanent=True)
        room.play(BEGIN)
        await service.until(lambda: len(service.calls_of("typing")) >= 2)
        room.play(TurnDone("Here it is."))
        assert [message.text for message in await room.ends()] == ["Here it is."]
    first, second = (call.at for call in service.calls_of("typing")[:2])
    assert second - first >= FAST.typing_cooldown


async def test_a_hanging_typing_call_blocks_nothing() -> None:
    """Neither the answer nor the shutdown waits for it."""
    service = ChatService()
    hanging = service.hold("typing")
    async with chat_room(service) as room:
        room.play(BEGIN)
        await hanging.reached.wait()
        room.play(TurnDone("Here it is."))
        await room.sees("Here it is.")


# -- tools ---------------------------------------------------------------------------------------------------


async def test_the_tool_status_becomes_the_next_text() -> None:
    """The status is silent, and nothing of it remains."""
    async with chat_room() as room:
        room.play(BEGIN, _start())
        line = await room.sees("⚙")
        assert (line.text, line.silent, line.formatted) == ("⚙ terminal: ls -la", True, False)
        room.play(_end(), TextDelta("There are three files."), TurnDone("There are three files."))
        (only,) = await room.ends()
        assert (only.id, only.text, only.formatted) == (line.id, "There are three files.", True)


async def test_the_tool_status_is_deleted_without_text() -> None:
    """A turn that ends without text leaves no status."""
    async with chat_room() as room:
        room.play(BEGIN, _start())
        await room.sees("⚙")
        room.play(_end(), TurnFailed("The model is away."))
        assert [message.text for message in await room.ends()] == ["⚠ The model is away."]


async def test_quick_tools_have_no_status() -> None:
    """A status that appears for a moment helps no one."""
    async with chat_room() as room:
        room.play(BEGIN)
        for number in range(5):
            room.play(_start(f"c{number}"), _end(f"c{number}"))
        room.play(TextDelta("Done."), TurnDone("Done."))
        await room.ends()
        assert [call.text for call in room.service.calls_of("send", "edit")] == ["Done."]


async def test_the_status_follows_the_tools() -> None:
    """Parallel tools share one message, and the next step edits it."""
    async with chat_room(timing=QUICK_LINE) as room:
        room.play(BEGIN, _start("c1", "read_file", '{"path": "a"}'), _start("c2", "terminal", "{}"))
        line = await room.sees("⚙ read_file, terminal")
        room.play(_end("c1", "read_file"))
        await room.service.until(lambda: line.text == "⚙ terminal")
        room.play(_end("c2"), _start("c3", "web", '{"url": "https://example.com"}'))
        await room.service.until(lambda: line.text == "⚙ web: https://example.com")
        room.play(_end("c3", "web"), TurnDone(""))
        assert await room.ends() == []
        assert len(room.service.calls_of("send")) == 1


async def test_text_does_not_replace_a_status_above_other_messages() -> None:
    """If another message follows the status, the status is deleted and the answer comes last."""
    async with chat_room() as room:
        room.play(BEGIN, _start())
        await room.sees("⚙")
        room.play(Notice("Something else."))
        await room.sees("Something else.")
        room.play(_end(), TurnDone("The answer."))
        assert [message.text for message in await room.ends()] == ["Something else.", "The answer."]


async def test_a_late_answer_notifies() -> None:
    """An edit notifies no one: after a long wait the status is deleted and the answer is a new message."""
    async with chat_room(timing=replace(FAST, notify_after=0.0)) as room:
        room.play(BEGIN, _start())
        line = await room.sees("⚙")
        room.play(_end(), TurnDone("The answer."))
        (only,) = await room.ends()
        assert only.id != line.id
        assert not only.silent


async def test_a_deleted_status_is_replaced_by_a_new_message() -> None:
    """A person deleted the status; the answer is sent as a new message."""
    async with chat_room() as room:
        room.play(BEGIN, _start())
        await room.sees("⚙")
        room.service.messages.clear()
        room.play(_end(), TurnDone("The answer."))
        assert [message.text for message in await room.ends()] == ["The answer."]


async def test_a_status_that_cannot_be_edited_is_deleted() -> None:
    """The edit is refused: the answer is sent below, and the status is deleted."""
    async with chat_room() as room:
        room.play(BEGIN, _start())
        await room.sees("⚙")
        room.service.fail("edit", MessageGone())
        room.play(_end(), TurnDone("The answer."))
        assert [message.text for message in await room.ends()] == ["The answer."]


async def test_a_failed_status_is_not_retried() -> None:
    """The status is best effort: after one failed call it is not tried again."""
    service = ChatService()
    service.fail("send", Unreachable(), when=lambda call: call.text.startswith("⚙"), permanent=True)
    async with chat_room(service, timing=QUICK_LINE) as room:
        room.play(BEGIN, _start())
        await service.until(lambda: len(service.calls_of("send")) == 1)
        room.play(_start("c2"), _end("c1"), _end("c2"), TurnDone("The answer."))
        assert [message.text for message in await room.ends()] == ["The answer."]
        assert len(service.calls_of("send")) == 2


async def test_in_a_group_the_status_is_a_reply() -> None:
    """The status may become the answer, and an edit cannot turn a message into a reply."""
    async with chat_room(place=GROUP) as room:
        room.delivery.map_reply("msg", "p1")
        room.play(BEGIN, _start())
        await room.sees("⚙")
        room.play(_end(), TurnDone("The answer."))
        (only,) = await room.ends()
        assert (only.text, only.reply_to) == ("The answer.", "p1")


@pytest.mark.parametrize(
    ("calls", "line"),
    [
        ([("terminal", '{"command": "ls -la"}')], "⚙ terminal: ls -la"),
        ([("todo", "{}")], "⚙ todo"),
        ([("x", "no json")], "⚙ x: no json"),
        ([("read", '{"path": "a.txt", "lines": [1, 2]}')], "⚙ read: path=a.txt lines=[1, 2]"),
        ([("terminal", '{"command": "echo 1\\necho 2"}')], "⚙ terminal: echo 1 echo 2"),
        ([("terminal", '{"command": "%s"}' % ("a" * 100))], f"⚙ terminal: {'a' * 59}…"),
        ([("read", "{}"), ("read", "{}"), ("terminal", "{}")], "⚙ read ×2, terminal"),
    ],
)
def test_a_status_is_one_short_line(calls: list[tuple[str, str]], line: str) -> None:
    """It reads as a person would write it."""
    assert tool_status_text([ToolStarted("c", name, arguments) for name, arguments in calls]) == line


# -- queued messages -----------------------------------------------------------------------------------------


async def test_a_queued_message_is_acknowledged_until_its_turn() -> None:
    """The notice is a silent reply and disappears when the turn starts."""
    async with chat_room() as room:
        room.delivery.map_reply("m2", "p2")
        room.play(BEGIN, Queued("m2", "and?", "queue", 1))
        noted = await room.sees("⏳")
        assert noted.text == "⏳ Noted; I answer it after this one."
        assert (noted.reply_to, noted.silent) == ("p2", True)
        room.play(TurnDone("One."), TurnStarted("m2", "and?"))
        await room.service.until(lambda: room.service.texts() == ["One."])
        room.play(TurnDone("Two."))
        assert [message.text for message in await room.ends()] == ["One.", "Two."]


async def test_a_burst_has_one_queued_notice() -> None:
    """For ten messages during a turn, one notice says how many wait; it disappears with the last of them."""
    async with chat_room() as room:
        room.play(BEGIN)
        for number in range(1, 11):
            room.play(Queued(f"q{number}", "?", "queue", number))
            await room.sees("⏳")
        noted = await room.sees("10 messages")
        assert noted.text == "⏳ Noted, 10 messages; I answer them after this one."
        room.play(TurnDone("0"))
        for number in range(1, 11):
            assert len([text for text in room.service.texts() if "⏳" in text]) <= 1
            room.play(TurnStarted(f"q{number}", "?"), TurnDone(str(number)))
        await room.ends()
        assert room.service.texts() == [str(number) for number in range(11)]
        assert len([call for call in room.service.calls_of("send") if "⏳" in call.text]) == 1


async def test_how_many_are_ahead() -> None:
    """The notice says how many messages come first."""
    async with chat_room() as room:
        room.play(BEGIN, Queued("m9", "?", "queue", 4))
        assert (await room.sees("⏳")).text == "⏳ Noted; I answer it after 4 others."


async def test_a_steering_message_is_acknowledged_until_the_model_has_it() -> None:
    """The notice disappears as soon as the model has the message."""
    async with chat_room() as room:
        room.play(BEGIN, Queued("m2", "rather blue", "steer", 1))
        assert (await room.sees("⏳")).text == "⏳ Noted; I take it into account at the next step."
        room.play(Steered("m2", "rather blue"))
        await room.service.until(lambda: room.service.messages == [])


async def test_an_interruption_is_not_acknowledged() -> None:
    """The stop is visible anyway."""
    async with chat_room() as room:
        room.play(BEGIN, Queued("m2", "no!", "interrupt", 1), TurnDone("", stopped=True))
        room.play(TurnStarted("m2", "no!"), TurnDone("All right."))
        assert [message.text for message in await room.ends()] == ["Stopped.", "All right."]


async def test_a_failed_queued_notice_is_not_retried() -> None:
    """It is not sent again and does not block answers."""
    service = ChatService()
    service.fail("send", Unreachable(), when=lambda call: "⏳" in call.text, permanent=True)
    async with chat_room(service) as room:
        room.play(BEGIN, Queued("m2", "?", "queue", 1))
        await service.until(lambda: len(service.calls_of("send")) == 1)
        room.play(Queued("m3", "?", "queue", 2), TurnDone("One."))
        for number in (2, 3):
            room.play(TurnStarted(f"m{number}", "?"), TurnDone(f"{number}."))
        assert [message.text for message in await room.ends()] == ["One.", "2.", "3."]
        assert len([call for call in service.calls_of("send") if "⏳" in call.text]) == 1
