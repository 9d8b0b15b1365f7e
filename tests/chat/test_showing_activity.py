"""What shows that something is going on: the sign of writing, tools at work, messages that wait."""

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
from tests.chat.chat_room import FAST, GROUP, chat_room
from tests.chat.service import ChatService

BEGIN = TurnStarted("msg", "hi")
QUICK_LINE = replace(FAST, status_after=0.0)


def _start(
    call_id: str = "c1", name: str = "terminal", arguments: str = '{"command": "ls -la"}'
) -> ToolStarted:
    return ToolStarted(call_id, name, arguments)


def _end(call_id: str = "c1", name: str = "terminal") -> ToolFinished:
    return ToolFinished(call_id, name, True, "", 2.0)


# -- the sign of writing -------------------------------------------------------------------------------------


async def test_the_sign_is_repeated_until_there_is_something_to_read() -> None:
    """It lasts as long as the model thinks, and ends when the text shows that it does."""
    service = ChatService()
    async with chat_room(service) as room:
        room.play(BEGIN)
        await service.until(lambda: len(service.made("typing")) >= 3)
        room.play(TextDelta("Now there is enough of it to be read."))
        await room.sees("Now there is")
        before = len(service.made("typing"))
        for number in range(4):
            room.play(TextDelta(f" [{number}]"))
            await room.sees(f"[{number}]")
        assert len(service.made("typing")) <= before + 1
    times = [call.at for call in service.made("typing")]
    assert all(later - earlier >= FAST.typing_every for earlier, later in pairwise(times))


@pytest.mark.parametrize(
    "error", [Unreachable(), SlowDown(0.1), Undeliverable()], ids=lambda error: type(error).__name__
)
async def test_a_sign_that_fails_rests_and_harms_nothing(error: DeliveryError) -> None:
    """The answer comes all the same, and the sign is not tried again at once."""
    service = ChatService()
    async with chat_room(service) as room:
        service.fail("typing", error, for_ever=True)
        room.play(BEGIN)
        await service.until(lambda: len(service.made("typing")) >= 2)
        room.play(TurnDone("Here it is."))
        assert [message.text for message in await room.ends()] == ["Here it is."]
    first, second = (call.at for call in service.made("typing")[:2])
    assert second - first >= FAST.typing_cooldown


async def test_a_sign_that_hangs_holds_up_nothing() -> None:
    """Nobody waits for it, not even the shutdown."""
    service = ChatService()
    hanging = service.hold("typing")
    async with chat_room(service) as room:
        room.play(BEGIN)
        await hanging.reached.wait()
        room.play(TurnDone("Here it is."))
        await room.sees("Here it is.")


# -- tools ---------------------------------------------------------------------------------------------------


async def test_a_long_tool_has_a_line_that_becomes_the_next_text() -> None:
    """The line is silent, and nothing of it remains."""
    async with chat_room() as room:
        room.play(BEGIN, _start())
        line = await room.sees("⚙")
        assert (line.text, line.silent, line.formatted) == ("⚙ terminal: ls -la", True, False)
        room.play(_end(), TextDelta("There are three files."), TurnDone("There are three files."))
        (only,) = await room.ends()
        assert (only.id, only.text, only.formatted) == (line.id, "There are three files.", True)


async def test_a_line_after_which_nothing_is_said_is_deleted() -> None:
    """The turn ends without text: the line must not stay."""
    async with chat_room() as room:
        room.play(BEGIN, _start())
        await room.sees("⚙")
        room.play(_end(), TurnFailed("The model is away."))
        assert [message.text for message in await room.ends()] == ["⚠ The model is away."]


async def test_quick_tools_are_not_mentioned() -> None:
    """A line that flashes up helps nobody."""
    async with chat_room() as room:
        room.play(BEGIN)
        for number in range(5):
            room.play(_start(f"c{number}"), _end(f"c{number}"))
        room.play(TextDelta("Done."), TurnDone("Done."))
        await room.ends()
        assert [call.text for call in room.service.made("send", "edit")] == ["Done."]


async def test_the_line_follows_the_tools() -> None:
    """Several at once share it; the next step changes it; one message in all."""
    async with chat_room(timing=QUICK_LINE) as room:
        room.play(BEGIN, _start("c1", "read_file", '{"path": "a"}'), _start("c2", "terminal", "{}"))
        line = await room.sees("⚙ read_file, terminal")
        room.play(_end("c1", "read_file"))
        await room.service.until(lambda: line.text == "⚙ terminal")
        room.play(_end("c2"), _start("c3", "web", '{"url": "https://example.com"}'))
        await room.service.until(lambda: line.text == "⚙ web: https://example.com")
        room.play(_end("c3", "web"), TurnDone(""))
        assert await room.ends() == []
        assert len(room.service.made("send")) == 1


async def test_text_is_not_put_above_what_was_said_since() -> None:
    """With another message below it the line goes, and the answer comes last."""
    async with chat_room() as room:
        room.play(BEGIN, _start())
        await room.sees("⚙")
        room.play(Notice("Something else."))
        await room.sees("Something else.")
        room.play(_end(), TurnDone("The answer."))
        assert [message.text for message in await room.ends()] == ["Something else.", "The answer."]


async def test_who_has_looked_away_hears_the_answer() -> None:
    """An edit makes no sound. After a long wait the line goes and the answer is a new message."""
    async with chat_room(timing=replace(FAST, notify_after=0.0)) as room:
        room.play(BEGIN, _start())
        line = await room.sees("⚙")
        room.play(_end(), TurnDone("The answer."))
        (only,) = await room.ends()
        assert only.id != line.id
        assert not only.silent


async def test_a_line_that_is_gone_is_not_missed() -> None:
    """Somebody deleted it; the answer is sent as a message."""
    async with chat_room() as room:
        room.play(BEGIN, _start())
        await room.sees("⚙")
        room.service.messages.clear()
        room.play(_end(), TurnDone("The answer."))
        assert [message.text for message in await room.ends()] == ["The answer."]


async def test_a_line_that_cannot_become_text_is_removed() -> None:
    """The edit is refused: the answer is sent below, and the line does not stay above it."""
    async with chat_room() as room:
        room.play(BEGIN, _start())
        await room.sees("⚙")
        room.service.fail("edit", MessageGone())
        room.play(_end(), TurnDone("The answer."))
        assert [message.text for message in await room.ends()] == ["The answer."]


async def test_a_line_that_fails_harms_nothing() -> None:
    """It is a courtesy: one call that fails is the last for it."""
    service = ChatService()
    service.fail("send", Unreachable(), when=lambda made: made.text.startswith("⚙"), for_ever=True)
    async with chat_room(service, timing=QUICK_LINE) as room:
        room.play(BEGIN, _start())
        await service.until(lambda: len(service.made("send")) == 1)
        room.play(_start("c2"), _end("c1"), _end("c2"), TurnDone("The answer."))
        assert [message.text for message in await room.ends()] == ["The answer."]
        assert len(service.made("send")) == 2


async def test_in_a_group_the_line_is_the_reply() -> None:
    """It may become the answer, and an edit cannot make a reply of it."""
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
def test_a_line_is_one_short_line(calls: list[tuple[str, str]], line: str) -> None:
    """As a person would say it."""
    assert tool_status_text([ToolStarted("c", name, arguments) for name, arguments in calls]) == line


# -- messages that wait --------------------------------------------------------------------------------------


async def test_a_message_that_waits_is_acknowledged_until_its_turn() -> None:
    """As a reply to it, silently; when its turn starts the acknowledgement is gone."""
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


async def test_a_burst_has_one_acknowledgement() -> None:
    """Ten messages while a turn runs: one message says how many wait, and goes with the last of them."""
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
        assert len([call for call in room.service.made("send") if "⏳" in call.text]) == 1


async def test_how_many_are_ahead() -> None:
    """Somebody who comes late in the line is told so."""
    async with chat_room() as room:
        room.play(BEGIN, Queued("m9", "?", "queue", 4))
        assert (await room.sees("⏳")).text == "⏳ Noted; I answer it after 4 others."


async def test_a_steering_message_is_acknowledged_until_it_is_taken_in() -> None:
    """It goes as soon as the model has it."""
    async with chat_room() as room:
        room.play(BEGIN, Queued("m2", "rather blue", "steer", 1))
        assert (await room.sees("⏳")).text == "⏳ Noted; I take it into account at the next step."
        room.play(Steered("m2", "rather blue"))
        await room.service.until(lambda: room.service.messages == [])


async def test_an_interruption_is_not_acknowledged() -> None:
    """The stop is answer enough."""
    async with chat_room() as room:
        room.play(BEGIN, Queued("m2", "no!", "interrupt", 1), TurnDone("", stopped=True))
        room.play(TurnStarted("m2", "no!"), TurnDone("All right."))
        assert [message.text for message in await room.ends()] == ["Stopped.", "All right."]


async def test_an_acknowledgement_that_fails_is_left_at_that() -> None:
    """Neither sent again nor in the way of the answers."""
    service = ChatService()
    service.fail("send", Unreachable(), when=lambda made: "⏳" in made.text, for_ever=True)
    async with chat_room(service) as room:
        room.play(BEGIN, Queued("m2", "?", "queue", 1))
        await service.until(lambda: len(service.made("send")) == 1)
        room.play(Queued("m3", "?", "queue", 2), TurnDone("One."))
        for number in (2, 3):
            room.play(TurnStarted(f"m{number}", "?"), TurnDone(f"{number}."))
        assert [message.text for message in await room.ends()] == ["One.", "2.", "3."]
        assert len([call for call in service.made("send") if "⏳" in call.text]) == 1
