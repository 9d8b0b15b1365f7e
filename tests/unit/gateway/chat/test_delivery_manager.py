"""Conversation deliveries: start, end, number, place; and notices outside a turn."""

from __future__ import annotations

import asyncio
import gc
import time
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from agent.events import Notice, Queued, TextDelta, ToolStarted, TurnDone, TurnStarted
from gateway.chat.delivery.item import POSSIBLY_TWICE
from gateway.chat.delivery.manager import DeliveryManager
from gateway.chat.delivery.text_message import CURSOR
from gateway.chat.errors import ContentRefused, SlowDown, Undeliverable, Unreachable
from gateway.core.events import EventHub
from gateway.types import Button, Place
from tests.support.chat_harness import ALICE, CONVERSATION, FAST, chat_room, reads_as
from tests.support.chat_service import ChatService

BOB = Place("bob")


def _tasks(name: str) -> list[asyncio.Task[object]]:
    return [task for task in asyncio.all_tasks() if task.get_name().startswith(name)]


async def test_following_twice_delivers_once() -> None:
    """Every incoming message calls `follow` again."""
    async with chat_room() as room:
        for _ in range(3):
            room.delivery.follow(CONVERSATION, ALICE)
        room.answer("Once.")
        assert [message.text for message in await room.ends()] == ["Once."]


async def test_earlier_turns_are_not_delivered() -> None:
    """A turn that ended before `follow` is not delivered."""
    hub, service = EventHub(), ChatService()
    hub.publish("old", TurnStarted("m1", "hi"))
    hub.publish("old", TurnDone("Long ago."))
    delivery = DeliveryManager(hub, service, timing=FAST)
    delivery.follow("old", ALICE)
    hub.publish("old", TurnStarted("m2", "hi"))
    hub.publish("old", TurnDone("Now."))
    await delivery.close()
    assert service.texts() == ["Now."]


async def test_no_event_after_follow_is_missed() -> None:
    """The subscription exists as soon as `follow` returns."""
    hub, service = EventHub(), ChatService()
    delivery = DeliveryManager(hub, service, timing=FAST)
    delivery.follow(CONVERSATION, ALICE)
    for number in range(3):
        hub.publish(CONVERSATION, TurnStarted(f"m{number}", "hi"))
        hub.publish(CONVERSATION, TurnDone(f"{number}"))
    await delivery.close()
    assert service.texts() == ["0", "1", "2"]


async def test_a_replayed_turn_is_not_delivered_twice() -> None:
    """The hub disconnects slow watchers and replays the turn when they reconnect."""
    async with chat_room(ChatService(limit=100_000)) as room:
        room.play(TurnStarted("msg", "hi"), TextDelta("The beginning of a long text. "))
        await room.sees("The beginning")
        room.play(Notice("Seen once."))
        words = [f"{number} " for number in range(10_050)]
        room.play(*map(TextDelta, words))
        await room.sees("10049")
        text = "The beginning of a long text. " + "".join(words)
        room.play(TurnDone(text))
        answer, notice = await room.ends()
        assert answer.text == text
        assert notice.text == "Seen once."


async def test_an_idle_delivery_ends_and_restarts() -> None:
    """Nothing is kept of an idle conversation; the next message follows it again."""
    async with chat_room(timing=replace(FAST, idle_timeout=0.02)) as room:
        room.answer("One.")
        await room.sees("One.")
        _, still_there = await asyncio.wait(_tasks("event reader"), timeout=5)
        assert not still_there
        room.play(TurnStarted("unseen", "from the web"), TurnDone("Not for this chat."))
        room.delivery.follow(CONVERSATION, ALICE)
        room.play(TurnStarted("m2", "hi"), TurnDone("Two."))
        assert [message.text for message in await room.ends()] == ["One.", "Two."]


async def test_a_delivery_does_not_end_during_a_turn() -> None:
    """A tool may take an hour."""
    async with chat_room(timing=replace(FAST, idle_timeout=0.01)) as room:
        room.play(TurnStarted("msg", "hi"), ToolStarted("c1", "terminal", "{}"))
        await room.service.until(lambda: len(room.service.calls_of("typing", "send")) > 0)
        (during_turn,) = _tasks("event reader")
        room.delivery.follow(
            "conv_2", Place("bob")
        )  # idle, and followed later: its time-out comes after this one's
        await asyncio.wait(set(_tasks("event reader")) - {during_turn})
        room.play(TurnDone("After an hour."))
        assert [message.text for message in await room.ends()] == ["After an hour."]


async def test_closing_finishes_all_messages() -> None:
    """If the process stops during an answer, no cursor, tool status or queued notice stays."""
    async with chat_room(timing=replace(FAST, status_after=0.0)) as room:
        room.play(
            TurnStarted("msg", "hi"), ToolStarted("c1", "terminal", "{}"), Queued("m2", "?", "queue", 1)
        )
        await room.sees("⚙")
        await room.sees("⏳")
        room.play(TextDelta("As far as it got until then"))
        await room.sees("As far as it got")
        (only,) = await room.ends()
        assert (only.text, only.formatted) == ("As far as it got until then", True)
        assert not any(map(_tasks, ("event reader", "sender", "typing")))


async def test_closing_is_bounded() -> None:
    """A hanging service does not block the shutdown, and no task stays."""
    service = ChatService()
    async with chat_room(service, timing=replace(FAST, close_timeout=0.05)) as room:
        hanging = service.hold("send")
        room.answer("Never.")
        await hanging.reached.wait()
        await room.delivery.close()
        await asyncio.sleep(0)
        assert not any(map(_tasks, ("event reader", "sender", "typing")))


async def test_follow_does_nothing_after_close() -> None:
    """A late message starts no delivery."""
    async with chat_room() as room:
        await room.delivery.close()
        room.delivery.follow(CONVERSATION, ALICE)
        room.answer("Too late.")
        assert await room.ends() == []


async def test_an_event_that_fails_does_not_end_the_delivery() -> None:
    """The error is logged, and the next event is shown."""

    def fails_on_one_word(text: str) -> int:
        return 1 // 0 if "cursed" in text else len(text)

    with capture_logs() as logs:
        async with chat_room(ChatService(measure=fails_on_one_word)) as room:
            room.play(Notice("This is cursed."), Notice("This is not."))
            await room.sees("This is not.")
    (report,) = [line for line in logs if line["log_level"] == "error"]
    assert report["event"] == "chat.event_not_shown"
    assert isinstance(report["exc_info"], ZeroDivisionError)


async def test_a_conversation_moves_to_another_chat() -> None:
    """The running turn stays where it began."""
    async with chat_room() as room:
        room.play(TurnStarted("m1", "hi"), TextDelta("This was asked by Alice,"))
        await room.sees("This was asked")
        room.delivery.follow(CONVERSATION, BOB)
        room.play(TextDelta(" and so on."), TurnDone("This was asked by Alice, and so on."))
        room.play(TurnStarted("m2", "hi"), TurnDone("This by Bob."))
        await room.ends()
        assert room.service.texts("alice") == ["This was asked by Alice, and so on."]
        assert room.service.texts("bob") == ["This by Bob."]


async def test_a_thousand_conversations_at_once() -> None:
    """Each conversation gets its own complete answer, at little cost."""
    hub, service = EventHub(), ChatService()
    delivery = DeliveryManager(hub, service, timing=FAST)
    ids = [f"conv_{number}" for number in range(1_000)]
    for conversation_id in ids:
        delivery.follow(conversation_id, Place(conversation_id))
        hub.publish(conversation_id, TurnStarted("m", "hi"))
        hub.publish(conversation_id, TextDelta("The answer that belongs to "))
    await service.until(lambda: len(service.messages) == 1_000, seconds=60)
    for conversation_id in ids:
        hub.publish(conversation_id, TurnDone(f"The answer that belongs to {conversation_id}"))
    await delivery.close()
    assert service.violations == []
    for message in service.messages:
        assert message.text == f"The answer that belongs to {message.place.chat_id}"


async def test_the_cost_of_an_answer_is_linear() -> None:
    """Ten times the text takes about ten times the work."""

    async def seconds(count: int) -> float:
        service = ChatService(limit=4_000, pace=0.005)
        async with chat_room(service) as room:
            words = ["word after word and "] * count
            gc.collect()
            began = time.process_time()
            room.play(TurnStarted("msg", "hi"))
            for number, word in enumerate(words):
                room.play(TextDelta(word))
                if number % 50 == 0:
                    await asyncio.sleep(0)
            room.play(TurnDone("".join(words)))
            await room.ends()
            spent = time.process_time() - began
            assert reads_as(service.messages, "".join(words))
            return spent

    await seconds(100)
    short, long = await seconds(2_000), await seconds(20_000)
    assert long < 40 * max(short, 0.02)


# -- notices outside a turn ---------------------------------------------------------------------------------


async def test_a_notice_returns_its_id() -> None:
    """A notice may have buttons, be a reply and be formatted."""
    async with chat_room() as room:
        buttons = [Button("Yes", "pair:1:yes")]
        message_id = await room.delivery.send_notice(BOB, "May *they* in?", buttons=buttons, reply_to="p7")
        (message,) = room.service.messages
        assert message.id == message_id
        assert (message.text, message.formatted, message.reply_to) == ("May *they* in?", True, "p7")
        assert message.buttons == tuple(buttons)


async def test_a_long_notice_is_split() -> None:
    """The last message has the buttons, and its id is returned."""
    text = "\n\n".join(f"Paragraph {number} with some words." for number in range(40))
    async with chat_room() as room:
        message_id = await room.delivery.send_notice(BOB, text, buttons=[Button("Yes", "y")])
        assert reads_as(room.service.messages, text)
        assert [bool(message.buttons) for message in room.service.messages][-2:] == [False, True]
        assert room.service.messages[-1].id == message_id


@pytest.mark.parametrize("error", [SlowDown(0.05), Unreachable(maybe_done=False)])
async def test_a_notice_is_retried(error: SlowDown | Unreachable) -> None:
    """Temporary failures are retried."""
    async with chat_room() as room:
        room.service.fail("send", error)
        assert await room.delivery.send_notice(BOB, "Hello.") == room.service.messages[0].id


async def test_a_doubtful_notice_is_marked() -> None:
    """A notice that may be visible twice is marked."""
    async with chat_room() as room:
        room.service.fail("send", Unreachable(maybe_done=True), executed=True)
        await room.delivery.send_notice(BOB, "Hello.")
        assert room.service.texts() == ["Hello.", f"{POSSIBLY_TWICE}\n\nHello."]


@pytest.mark.parametrize("error", [Undeliverable(), ContentRefused(), Unreachable(maybe_done=False)])
async def test_a_notice_that_fails_returns_none(error: Undeliverable | ContentRefused | Unreachable) -> None:
    """The caller gets no exception, and the service is not flooded."""
    async with chat_room(timing=replace(FAST, best_effort_timeout=0.02)) as room:
        room.service.fail("send", error, permanent=True)
        assert await room.delivery.send_notice(BOB, "Hello.") is None
        assert len(room.service.calls_of("send")) <= 12


async def test_a_notice_times_out() -> None:
    """The caller does not wait for a pause of hours."""
    async with chat_room(timing=replace(FAST, notice_timeout=0.05)) as room:
        room.service.fail("send", SlowDown(13_938.0))
        assert await room.delivery.send_notice(BOB, "Hello.") is None
        assert len(room.service.calls_of("send")) == 1


async def test_no_cursor_stays() -> None:
    """Many turns in a row end as complete texts."""
    async with chat_room() as room:
        for number in range(20):
            text = f"Answer {number} is long enough to be seen while it grows."
            room.play(TurnStarted(f"m{number}", "hi"), TextDelta(text[:30]))
            await room.sees(text[:30])
            room.play(TextDelta(text[30:]), TurnDone(text))
        await room.ends()
        assert not any(CURSOR in text for text in room.service.texts())
        assert len(room.service.messages) == 20
