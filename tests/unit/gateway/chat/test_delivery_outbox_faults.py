"""The outbox when the chat is unreachable, the service asks for a pause, Hermes stops or the store is full."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.errors import StoreFull
from agent.events import (
    Notice,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnFailed,
    TurnStarted,
)
from gateway.chat.delivery.item import POSSIBLY_TWICE
from gateway.chat.errors import ContentRefused, SlowDown, Undeliverable, Unreachable
from gateway.types import Place
from tests.support.chat_harness import FAST, reads_as
from tests.support.chat_service import ChatService
from tests.support.crashing_process import AT_ONCE, CrashHarness, Process, Script, only_recover, step_id

SHORT = "A short answer, with **some** weight."
STORY = "\n\n".join(f"Paragraph {number} of a story that takes several messages." for number in range(9))
REWRITTEN = "The same, in other words, because it is written again."


def _answering(*steps: str) -> Script:
    async def script(process: Process) -> None:
        await process.answer(list(steps), sizes=[40], pauses=[60])

    return script


async def _shown(harness: CrashHarness, script: Script = only_recover) -> list[str]:
    """Return what people see after a process has finished."""
    await harness.run(script)
    return harness.service.texts()


# -- unreachable, pauses, shutdown ---------------------------------------------------------------------------


async def test_a_turn_to_an_unreachable_chat_is_parked() -> None:
    """Nothing more of the turn is tried, also after a restart."""
    harness = await CrashHarness.create(ChatService())
    harness.service.fail("send", Undeliverable(), permanent=True)

    async def answering(process: Process) -> None:
        process.start_turn()
        process.publish(StepStarted(step_id(0)), TextDelta("Let me look."))
        await process.store(step_id(0), "Let me look.", is_last=False)
        process.publish(ToolStarted("c1", "tool", "{}"), ToolFinished("c1", "tool", True, "", 0.0))
        await harness.service.until(lambda: bool(harness.service.calls_of("send")))
        await harness.wait_for_states(lambda states: states.get(step_id(0)) == "parked")
        await harness.add_items("A notice.")
        process.publish(Notice("A notice.", "out_0"), StepStarted(step_id(1)), TextDelta("So."))
        await process.store(step_id(1), "So.")
        process.publish(TurnDone("So."))

    await harness.run(answering)
    assert await harness.states() == dict.fromkeys([step_id(0), "out_0", step_id(1)], "parked")
    before = len(harness.service.calls)
    harness.service.heal()
    assert await _shown(harness) == []
    assert len(harness.service.calls) == before


async def test_a_service_that_is_away_for_long_is_waited_for() -> None:
    """Outbox items are retried longer than best-effort items."""
    service = ChatService()
    harness = await CrashHarness.create(service, timing=replace(FAST, best_effort_timeout=0.01))
    service.fail("send", Unreachable(maybe_done=False), permanent=True)

    async def answering(process: Process) -> None:
        await process.answer([SHORT], sizes=[40], pauses=[0])
        await service.until(lambda: len(service.calls_of("send")) >= 3 and _seconds(service) > 0.05)
        service.heal()

    assert await _shown(harness, answering) == [SHORT]
    assert await harness.states() == {step_id(0): "sent"}


def _seconds(service: ChatService) -> float:
    first, *_, last = (call.at for call in service.calls_of("send"))
    return last - first


async def test_a_refused_text_is_reported_and_parked() -> None:
    """A retry would be refused again."""
    harness = await CrashHarness.create(ChatService())
    harness.service.fail("send", ContentRefused(), when=lambda call: "cursed" in call.text, permanent=True)
    await harness.add_items("This is cursed.", "This is not.")
    told, after = await _shown(harness)
    assert "did not take a part" in told
    assert after == "This is not."
    assert await harness.states() == {"out_0": "parked", "out_1": "sent"}


async def test_a_pause_of_hours_loses_nothing() -> None:
    """The text waits, other chats continue, a shutdown does not wait for it, and the next process sends it without a
    mark."""
    service = ChatService()
    harness = await CrashHarness.create(service, timing=replace(AT_ONCE, close_timeout=0.02))
    paused = service.fail("send", SlowDown(13_938.0), when=lambda call: call.chat_id == "alice")

    async def answering(process: Process) -> None:
        await process.answer([STORY], sizes=[40], pauses=[10])
        await paused.reached.wait()
        process.delivery.follow("another", Place("bob"))
        process.publish_in("another", TurnStarted("m2", "hi"), TurnDone("For Bob."))
        await service.until(lambda: service.texts("bob") == ["For Bob."])
        await harness.wait_for_states(lambda states: states == {step_id(0): "pending"})

    await harness.run(answering)
    assert len([call for call in service.calls_of("send") if call.chat_id == "alice"]) == 1
    assert await harness.states() == {step_id(0): "pending"}
    harness.timing = AT_ONCE
    await harness.run(only_recover)
    alices = [message for message in service.messages if message.place.chat_id == "alice"]
    assert reads_as(alices, STORY)
    assert not any(POSSIBLY_TWICE in message.text for message in alices)


async def test_a_pause_is_not_a_failure() -> None:
    """A service that asks for a pause is reachable: the time-out counts only failures without a response."""
    service = ChatService()
    harness = await CrashHarness.create(
        service, timing=replace(AT_ONCE, best_effort_timeout=0.05, durable_timeout=0.05)
    )
    for error in (Unreachable(maybe_done=False), SlowDown(0.06), Unreachable(maybe_done=False)):
        service.fail("send", error)
    await harness.add_items("At last.")
    assert await _shown(harness) == ["At last."]
    assert await harness.states() == {"out_0": "sent"}


async def test_a_call_in_flight_at_shutdown_is_in_doubt() -> None:
    """The call may or may not have been executed."""
    service = ChatService()
    harness = await CrashHarness.create(service, timing=replace(FAST, close_timeout=0.02))
    service.hold("send")
    await harness.run(_answering(SHORT))
    assert await harness.states() == {step_id(0): "sending"}
    harness.timing = FAST
    assert await _shown(harness) == [f"{POSSIBLY_TWICE}\n\n{SHORT}"]


@pytest.mark.parametrize("is_told", [True, False])
async def test_an_answer_interrupted_by_shutdown_is_written_again(is_told: bool) -> None:
    """The visible part stays readable until then; afterwards nothing of it stays."""
    service = ChatService()
    harness = await CrashHarness.create(service)

    async def interrupted(process: Process) -> None:
        process.start_turn()
        process.publish(StepStarted(step_id(0)), TextDelta("As far as it got"))
        await service.until(lambda: bool(service.messages))
        if is_told:
            process.publish(TurnFailed("The answer comes later."))

    told = ["⚠ The answer comes later."] if is_told else []
    assert await _shown(harness, interrupted) == ["As far as it got", *told]
    assert await _shown(harness, _answering(REWRITTEN)) == [*told, REWRITTEN]


async def test_an_invisible_answer_is_not_started_at_shutdown() -> None:
    """The next process would have to delete it at once."""
    harness = await CrashHarness.create(ChatService(), timing=FAST)

    async def interrupted(process: Process) -> None:
        process.start_turn()
        process.publish(StepStarted(step_id(0)), TextDelta("As far as"))

    assert await _shown(harness, interrupted) == []


# -- cost of writes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("streamed", "notes"), [(False, 2), (True, 3)])
async def test_an_answer_costs_few_writes(streamed: bool, notes: int) -> None:
    """One write before the text is sent and one after it; one more if it is visible while it grows."""
    service = ChatService()
    harness = await CrashHarness.create(service)

    async def answering(process: Process) -> None:
        process.start_turn()
        process.publish(StepStarted(step_id(0)))
        for number in range(20 if streamed else 0):
            process.publish(TextDelta(f"[{number}]"))
            await service.until(lambda number=number: any(f"[{number}]" in text for text in service.texts()))
        text = "".join(f"[{number}]" for number in range(20))
        await process.store(step_id(0), text)
        process.publish(TurnDone(text))
        await service.until(lambda: any(message.formatted for message in service.messages))
        await harness.wait_for_states(lambda states: states == {step_id(0): "sent"})
        assert process.schedule.done["save_progress"] == notes

    await harness.run(answering)


async def test_a_full_store_does_not_stop_delivery() -> None:
    """Nothing can be saved, but everything is shown; unsaved progress is saved with the next change."""
    service = ChatService()
    harness = await CrashHarness.create(service)

    async def answering(process: Process) -> None:
        process.schedule.fails["save_progress"] = StoreFull()
        process.start_turn()
        for number, text in enumerate(["Let me look.", SHORT]):
            process.publish(StepStarted(step_id(number)), TextDelta(text))
            await process.store(step_id(number), text, is_last=number == 1)
        process.publish(TurnDone(SHORT))
        await service.until(lambda: SHORT in service.texts())  # the progress of the other text is due by now
        process.schedule.fails.clear()
        await harness.add_items("There is room again.")
        process.publish(Notice("There is room again.", "out_0"))

    assert await _shown(harness, answering) == ["Let me look.", SHORT, "There is room again."]
    assert set((await harness.states()).values()) == {"sent"}


async def test_unsaved_progress_is_saved_at_shutdown() -> None:
    """Nothing changes any more, and the store has room again when the process stops."""
    service = ChatService()
    harness = await CrashHarness.create(service)

    async def answering(process: Process) -> None:
        process.schedule.fails["save_progress"] = StoreFull()
        await process.answer([SHORT], sizes=[40], pauses=[0])
        process.publish(Notice("An aside."))
        # This comes after the attempt to save that the text has arrived.
        await service.until(lambda: "An aside." in service.texts())
        process.schedule.fails.clear()

    assert await _shown(harness, answering) == [SHORT, "An aside."]
    assert await harness.states() == {step_id(0): "sent"}
