"""Delivery faults: no text is lost, repeated or reordered, and a failing service is not flooded."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from agent.events import TextDelta, ToolStarted, TurnDone, TurnStarted
from gateway.chat.delivery.item import POSSIBLY_TWICE
from gateway.chat.delivery.pacing import RatePacer, Timing
from gateway.chat.delivery.text_message import CURSOR
from gateway.chat.errors import (
    ChatMoved,
    ContentRefused,
    DeliveryError,
    MessageGone,
    SlowDown,
    Undeliverable,
    Unreachable,
)
from gateway.types import Place
from tests.support.chat_harness import ALICE, CONVERSATION, FAST, ChatHarness, chat_room, reads_as
from tests.support.chat_service import ChatService, Fault, RecordedCall, Verb

BEGINNING = "The answer begins with a sentence that is long enough to be seen. "
MIDDLE = "Then it goes on, and **this** is where an edit comes in.\n\n"
END = "\n\n".join(
    f"Paragraph {number} makes it too long for a single message, and so on." for number in range(9)
)
TEXT = BEGINNING + MIDDLE + END

IMPATIENT = replace(FAST, best_effort_timeout=0.03)


TOPICS = [Place("shop", topic, kind="group", group_id="shop") for topic in ("1", "2")]


@dataclass(frozen=True, slots=True)
class CallStage:
    """A call of an answer that needs at least two messages."""

    verb: Verb
    skip: int = 0
    when: Callable[[RecordedCall], bool] = lambda call: True


STAGES = {
    "first send": CallStage("send"),
    "edit": CallStage("edit", when=lambda call: not call.formatted),
    "final edit": CallStage("edit", when=lambda call: call.formatted),
    "continuation": CallStage("send", skip=1),
}


async def _answer_with(room: ChatHarness, fault: Fault) -> None:
    """Let each part become visible, unless the fault comes first."""
    room.play(TurnStarted("msg", "hi"))
    for part in (BEGINNING, MIDDLE):
        room.play(TextDelta(part))
        await _seen_or_failed(room, part, fault)
    room.play(TextDelta(END), TurnDone(TEXT))
    await room.ends()
    assert fault.reached.is_set()


async def _seen_or_failed(room: ChatHarness, part: str, fault: Fault) -> None:
    last_words = part.strip()[-20:]
    await room.service.until(
        lambda: fault.reached.is_set() or any(last_words in text for text in room.service.texts())
    )


def _plan(
    service: ChatService, stage: CallStage, error: DeliveryError | OSError, *, executed: bool = False
) -> Fault:
    return service.fail(stage.verb, error, skip=stage.skip, when=stage.when, executed=executed)


@pytest.fixture(params=STAGES)
def stage(request: pytest.FixtureRequest) -> CallStage:
    return STAGES[request.param]


async def test_a_pause_is_kept_exactly(stage: CallStage) -> None:
    """The call is repeated after the time the service asked for, and no call comes earlier."""
    service = ChatService()
    fault = _plan(service, stage, SlowDown(0.1))
    async with chat_room(service) as room:
        await _answer_with(room, fault)
        assert reads_as(service.messages, TEXT)
        pauses = [later.at - earlier.at for earlier, later in pairwise(service.calls_of("send", "edit"))]
        assert 0.1 <= max(pauses) < 2.0
        assert all(POSSIBLY_TWICE not in text for text in service.texts())


async def test_a_call_that_was_not_executed_is_repeated(stage: CallStage) -> None:
    """The call was not executed, so no mark is needed."""
    service = ChatService()
    fault = _plan(service, stage, Unreachable(maybe_done=False))
    async with chat_room(service) as room:
        await _answer_with(room, fault)
        assert reads_as(service.messages, TEXT)
        assert all(message.formatted for message in service.messages)
        assert all(POSSIBLY_TWICE not in text for text in service.texts())


async def test_an_answer_waits_for_file_descriptors(stage: CallStage) -> None:
    """Nothing could be sent, so no mark is needed, and the finished answer is not abandoned."""
    service = ChatService()
    fault = _plan(service, stage, OSError(errno.EMFILE, "Too many open files"))
    async with chat_room(service) as room:
        await _answer_with(room, fault)
        assert reads_as(service.messages, TEXT)
        assert all(POSSIBLY_TWICE not in text for text in service.texts())


async def test_another_os_error_leaves_a_doubt() -> None:
    """The connection broke: the message may have arrived, so the repeated one is marked."""
    service = ChatService()
    fault = service.fail("send", ConnectionResetError(errno.ECONNRESET, "reset"))
    async with chat_room(service) as room:
        await _answer_with(room, fault)
        assert reads_as(service.messages, TEXT)
        assert len([text for text in service.texts() if POSSIBLY_TWICE in text]) == 1


@pytest.mark.parametrize("executed", [True, False])
async def test_a_call_in_doubt(stage: CallStage, executed: bool) -> None:
    """An edit is repeated without a mark. A message that may be visible twice is marked."""
    service = ChatService()
    fault = _plan(service, stage, Unreachable(maybe_done=True), executed=executed)
    async with chat_room(service) as room:
        await _answer_with(room, fault)
        assert reads_as(service.messages, TEXT)
        marked = [text for text in service.texts() if POSSIBLY_TWICE in text]
        assert len(marked) == (1 if stage.verb == "send" else 0)
        ghosts = [message for message in service.messages if message.is_ghost]
        assert len(ghosts) == (1 if stage.verb == "send" and executed else 0)


async def test_a_repeated_message_ends_where_it_did() -> None:
    """The room for the mark is reserved; otherwise the end of the message would move unmarked into the next one."""
    service = ChatService(limit=200)
    service.fail("send", Unreachable(maybe_done=True), executed=True)
    text = " ".join(f"word{number}" for number in range(60))
    async with chat_room(service, streaming=False) as room:
        room.answer(text)
        ghost, again, *others = (message.text for message in await room.ends())
        assert again == f"{POSSIBLY_TWICE}\n\n{ghost}"
        assert others
        assert not any(POSSIBLY_TWICE in text for text in others)


async def test_a_doubt_covers_both_messages_of_a_split_text() -> None:
    """The unfinished message may show more than the one that replaces it: the beginning of the next one, too."""
    service = ChatService(limit=200)
    first, second = "One paragraph. " * 7, "Another paragraph. " * 12
    async with chat_room(service) as room:
        doubtful = service.fail("send", Unreachable(maybe_done=True), executed=True)
        room.play(TurnStarted("msg", "hi"), TextDelta(f"{first}\n\n{second[:60]}"))
        await doubtful.reached.wait()
        room.play(TextDelta(second[60:]), TurnDone(f"{first}\n\n{second}"))
        _, *texts = (message.text for message in await room.ends())
        assert reads_as(service.messages, f"{first}\n\n{second}")
        assert texts[0] == f"{POSSIBLY_TWICE}\n\n{first.strip()}"
        assert [text.startswith(POSSIBLY_TWICE) for text in texts] == [
            True,
            True,
            *[False] * (len(texts) - 2),
        ]
        assert len(texts) > 2


async def test_a_deleted_message_is_continued_below(stage: CallStage) -> None:
    """The visible part is not repeated; a new message continues the text."""
    service = ChatService()
    fault = _plan(service, stage, MessageGone())
    async with chat_room(service) as room:
        await _answer_with(room, fault)
        assert reads_as(service.messages, TEXT)
        assert service.messages[-1].formatted


async def test_text_that_is_refused_once(stage: CallStage) -> None:
    """Unfinished text that is refused waits for the end; a refused final edit is replaced by a new message."""
    service = ChatService()
    fault = _plan(service, stage, ContentRefused())
    async with chat_room(service) as room:
        await _answer_with(room, fault)
        said = [message for message in service.messages if not message.text.startswith("⚠")]
        if stage is STAGES["continuation"]:  # that message was final, and the service refuses it
            assert any("did not take a part" in text for text in service.texts())
            assert len(said) < len(service.messages)
        else:
            assert reads_as(said, TEXT)
            assert said == service.messages


async def test_an_unreachable_chat_ends_the_turn(stage: CallStage) -> None:
    """The turn makes no further call and logs one line; the next turn is tried again."""
    service = ChatService()
    fault = _plan(service, stage, Undeliverable())
    with capture_logs() as logs:
        async with chat_room(service) as room:
            await _play_until(room, fault)
            before = len(service.calls_of("send", "edit"))
            room.play(
                TextDelta("more and more of it"), ToolStarted("c1", "todo", "{}"), TurnDone("Something else.")
            )
            room.play(TurnStarted("msg2", "hi"), TurnDone("Here again."))
            await room.sees("Here again.")
            assert len(service.calls_of("send", "edit")) == before + 1
    assert [line["event"] for line in logs].count("chat.undeliverable") == 1


async def _play_until(room: ChatHarness, fault: Fault) -> None:
    room.play(TurnStarted("msg", "hi"))
    for part in (BEGINNING, MIDDLE, END, END):
        room.play(TextDelta(part))
        await _seen_or_failed(room, part, fault)
    await fault.reached.wait()


@pytest.mark.parametrize("executed", [True, False])
async def test_an_edit_that_times_out_is_continued_below(executed: bool) -> None:
    """The rest is sent as a new message, marked if it may repeat text."""
    service = ChatService()
    error = Unreachable(maybe_done=executed)
    async with chat_room(service, timing=IMPATIENT) as room:
        room.play(TurnStarted("msg", "hi"), TextDelta(BEGINNING))
        first = await room.sees(BEGINNING.strip())
        service.fail("edit", error, permanent=True)
        room.play(TextDelta(MIDDLE), TurnDone(BEGINNING + MIDDLE))
        await room.ends()
        finals = [call for call in service.calls_of("edit") if call.formatted]
        assert finals[-1].at - finals[0].at >= IMPATIENT.best_effort_timeout
        assert first.text == BEGINNING + CURSOR
        assert reads_as(service.messages, BEGINNING + MIDDLE)
        assert (POSSIBLY_TWICE in service.messages[-1].text) == executed


async def test_a_doubtful_final_edit_that_removes_text() -> None:
    """A full message ends at a paragraph, so its last edit removes text. If that edit may or may not have arrived, the
    next message begins at the paragraph and is marked."""
    service = ChatService()
    first, second = "One paragraph. " * 20, "Another paragraph. " * 12
    async with chat_room(service, timing=IMPATIENT) as room:
        room.play(TurnStarted("msg", "hi"), TextDelta(f"{first}\n\n{second[:60]}"))
        await room.sees(second[:50])
        service.fail("edit", Unreachable(maybe_done=True), executed=True, permanent=True)
        room.play(TextDelta(second[60:]), TurnDone(f"{first}\n\n{second}"))
        before, after = await room.ends()
        assert before.text == first.strip()
        assert after.text == f"{POSSIBLY_TWICE}\n\n{second}"


async def test_an_answer_survives_an_outage() -> None:
    """The answer is retried until it arrives; a text that was never sent needs no mark."""
    service = ChatService()
    service.fail("send", Unreachable(maybe_done=False), permanent=True)
    async with chat_room(service) as room:
        room.answer("It was worth the wait.")
        await service.until(lambda: len(service.calls_of("send")) == 30)
        service.heal()
        assert [message.text for message in await room.ends()] == ["It was worth the wait."]


async def test_an_answer_times_out() -> None:
    """After the time-out the answer is abandoned; the next turn is tried."""
    service = ChatService()
    service.fail(
        "send", Unreachable(maybe_done=False), when=lambda call: "Nobody" in call.text, permanent=True
    )
    with capture_logs() as logs:
        async with chat_room(service, timing=IMPATIENT) as room:
            room.answer("Nobody will see this.")
            room.play(TurnStarted("msg2", "hi"), TurnDone("But this."))
            assert [message.text for message in await room.ends()] == ["But this."]
            *tries, _ = service.calls_of("send")
            assert tries[-1].at - tries[0].at >= IMPATIENT.best_effort_timeout
    assert [line["event"] for line in logs].count("chat.abandoned") == 1


async def test_retries_back_off() -> None:
    """A service that recovers slowly is not flooded."""
    pacer = RatePacer(1.0, Timing())
    pauses = []
    now = 0.0
    for _ in range(6):
        pacer.record_failure(now)
        pauses.append(pacer.blocked_until - now)
        now = pacer.blocked_until
    assert pauses == [1, 2, 4, 8, 16, 16]


async def test_the_pace_adapts() -> None:
    """The pace slows down with each rate limit, up to a bound, and recovers slowly."""
    pacer = RatePacer(2.0, Timing())
    for _ in range(20):
        pacer.slow_down(5.0, now=100.0)
    assert (pacer.blocked_until, pacer.edit_interval) == (105.0, 30.0)
    pacer.record_success()
    assert 25.0 < pacer.edit_interval < 30.0
    for _ in range(200):
        pacer.record_success()
    assert pacer.edit_interval == 2.0


async def test_topics_of_a_group_share_its_pauses() -> None:
    """A rate limit in one topic applies to all topics of the group; another group continues."""
    service = ChatService()
    held = service.fail("send", SlowDown(3600.0))
    async with chat_room(service, place=TOPICS[0], timing=replace(FAST, close_timeout=0.02)) as room:
        room.answer("Too much for one minute.")
        await held.reached.wait()
        room.delivery.follow("other topic", TOPICS[1])
        room.hub.publish("other topic", TurnDone("This has to wait, too."))
        room.delivery.follow("other group", Place("garden", kind="group", group_id="garden"))
        room.hub.publish("other group", TurnDone("This has not."))
        await room.sees("This has not.")
        await room.ends()
        assert len(service.calls_of("send")) == 2


async def test_topics_that_stream_at_once_share_the_pace() -> None:
    """Two texts that grow in one group get half of the edits each; one alone gets all."""
    service = ChatService(pace=0.04)
    async with chat_room(service, place=TOPICS[0]) as room:
        room.delivery.follow("other topic", TOPICS[1])
        room.play(TurnStarted("m1", "hi"), TextDelta("In one topic"))
        room.hub.publish("other topic", TextDelta("In the other"))
        await room.sees("In one topic")
        await room.sees("In the other")
        room.play(TextDelta(", and so on"))
        await room.sees("and so on")
        room.hub.publish("other topic", TurnDone("In the other"))
        await service.until(lambda: any(message.formatted for message in service.messages))
        room.play(TextDelta(", alone now"))
        await room.sees("alone now")
        first, second, third = (
            call.at for call in service.calls_of("send", "edit") if "one topic" in call.text
        )
        assert second - first >= 0.08
        assert third - second < 0.08


@pytest.mark.parametrize("seconds", [139.0, 13_938.0])
async def test_a_very_long_pause_blocks_one_chat_only(seconds: float) -> None:
    """The pause is kept, other chats continue, and a shutdown does not wait."""
    service = ChatService()
    fault = service.fail("send", SlowDown(seconds), when=lambda call: call.chat_id == "alice")
    async with chat_room(service, timing=replace(FAST, close_timeout=0.02)) as room:
        room.answer("For Alice.")
        await fault.reached.wait()
        room.delivery.follow("conv_2", Place("bob"))
        for number in range(3):
            room.hub.publish("conv_2", TurnStarted(f"m{number}", "hi"))
            room.hub.publish("conv_2", TurnDone(f"For Bob {number}."))
            room.play(
                TurnStarted(f"a{number}", "hi"), TextDelta("More for Alice, which has to wait as well.")
            )
            await room.sees(f"For Bob {number}.")
        assert len([call for call in service.calls_of("send", "edit") if call.chat_id == "alice"]) == 1


async def test_unfinished_text_is_skipped_during_a_pause() -> None:
    """After the pause only the newest text is shown."""
    service = ChatService()
    async with chat_room(service) as room:
        room.play(TurnStarted("msg", "hi"), TextDelta(BEGINNING))
        await room.sees(BEGINNING.strip())
        fault = service.fail("edit", SlowDown(0.05))
        room.play(TextDelta("One. "))
        await fault.reached.wait()
        for word in ("Two. ", "Three. ", "Four."):
            room.play(TextDelta(word))
        room.play(TurnDone(BEGINNING + "One. Two. Three. Four."))
        (only,) = await room.ends()
        assert only.versions == [BEGINNING + CURSOR, BEGINNING + "One. Two. Three. Four."]


async def test_a_chat_that_has_moved_is_followed() -> None:
    """The answer continues in the new chat, where the old message cannot be edited."""
    service = ChatService()
    async with chat_room(service) as room:
        room.play(TurnStarted("msg", "hi"), TextDelta(BEGINNING))
        await room.sees(BEGINNING.strip())
        service.fail("edit", ChatMoved("new"))
        room.play(TextDelta(MIDDLE), TurnDone(BEGINNING + MIDDLE))
        await service.until(lambda: len(service.messages) == 2)
        room.delivery.follow(CONVERSATION, ALICE)
        room.answer("And the next answer.")
        await room.ends()
        assert [message.place.chat_id for message in service.messages] == ["alice", "new", "new"]
        assert reads_as(service.messages[:2], BEGINNING + MIDDLE)


async def test_a_chat_that_keeps_moving_is_abandoned() -> None:
    """A service that contradicts itself is not followed in circles."""
    service = ChatService()
    service.fail("send", ChatMoved("elsewhere"), permanent=True)
    async with chat_room(service) as room:
        room.answer("Where are you?")
        await room.ends()
        assert len(service.calls_of("send")) < 10


async def test_a_refused_message_is_reported() -> None:
    """A notice replaces the part of an answer that the service refuses; the rest is sent."""
    service = ChatService()
    service.fail("send", ContentRefused(), when=lambda call: "Paragraph 9 " in call.text, permanent=True)
    async with chat_room(service, streaming=False) as room:
        room.answer(END.replace("Paragraph", "Once more: paragraph") + "\n\nParagraph 9 is bad.\n\n" + END)
        texts = [message.text for message in await room.ends()]
        at = next(index for index, text in enumerate(texts) if text.startswith("⚠"))
        assert "paragraph 0" in texts[0]
        assert 0 < at < len(texts) - 1
        assert "Paragraph 8" in texts[-1]


async def test_a_refused_notice_is_not_replaced() -> None:
    """If the service refuses the notice, too, nothing more is sent."""
    service = ChatService()
    service.fail("send", ContentRefused(), permanent=True)
    async with chat_room(service) as room:
        room.answer("Take this.")
        assert await room.ends() == []
        assert len(service.calls_of("send")) == 2


async def test_an_adapter_bug_ends_the_turn_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An unexpected exception is reported, and the next turn is delivered."""

    class Broken(ChatService):
        async def edit(self, *args: object, **kwargs: object) -> None:
            raise ZeroDivisionError

    service = Broken()
    async with chat_room(service) as room:
        room.play(TurnStarted("msg", "hi"), TextDelta(BEGINNING))
        await room.sees(BEGINNING.strip())
        room.play(TextDelta(MIDDLE), TurnDone(BEGINNING + MIDDLE))
        room.play(TurnStarted("msg2", "hi"), TurnDone("Better."))
        await room.sees("Better.")
    assert "Delivery of a turn crashed" in caplog.text
