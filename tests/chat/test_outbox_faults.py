"""What is on its way when nobody is there, the service wants a pause, Hermes stops, or the store is full."""

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
from tests.chat.chat_room import FAST, reads_as
from tests.chat.mortal import AT_ONCE, Process, Script, World, nothing_new, step_id
from tests.chat.service import ChatService

SHORT = "A short answer, with **some** weight."
STORY = "\n\n".join(f"Paragraph {number} of a story that takes several messages." for number in range(9))
OTHERWISE = "The same, said in other words, because it is written anew."


def _answering(*steps: str) -> Script:
    async def script(process: Process) -> None:
        await process.answer(list(steps), sizes=[40], pauses=[60])

    return script


async def _shown(world: World, script: Script = nothing_new) -> list[str]:
    """What people see once a process is through."""
    await world.run(script)
    return world.service.texts()


# -- nobody there, pauses, shutdown --------------------------------------------------------------------------


async def test_where_nobody_is_there_a_turn_is_parked() -> None:
    """Nothing more of it is tried, and nothing again after a restart."""
    world = await World.made(ChatService())
    world.service.fail("send", Undeliverable(), for_ever=True)

    async def answering(process: Process) -> None:
        process.begin()
        process.play(StepStarted(step_id(0)), TextDelta("Let me look."))
        await process.store(step_id(0), "Let me look.", is_last=False)
        process.play(ToolStarted("c1", "tool", "{}"), ToolFinished("c1", "tool", True, "", 0.0))
        await world.service.until(lambda: bool(world.service.made("send")))
        await world.outbox_reads(lambda states: states.get(step_id(0)) == "parked")
        await world.leaves("A notice.")
        process.play(Notice("A notice.", "out_0"), StepStarted(step_id(1)), TextDelta("So."))
        await process.store(step_id(1), "So.")
        process.play(TurnDone("So."))

    await world.run(answering)
    assert await world.states() == dict.fromkeys([step_id(0), "out_0", step_id(1)], "parked")
    made = len(world.service.calls)
    world.service.heal()
    assert await _shown(world) == []
    assert len(world.service.calls) == made


async def test_a_service_that_is_away_for_long_is_waited_for() -> None:
    """Longer than anybody has patience for what is not in the outbox."""
    service = ChatService()
    world = await World.made(service, timing=replace(FAST, best_effort_timeout=0.01))
    service.fail("send", Unreachable(maybe_done=False), for_ever=True)

    async def answering(process: Process) -> None:
        await process.answer([SHORT], sizes=[40], pauses=[0])
        await service.until(lambda: len(service.made("send")) >= 3 and _seconds(service) > 0.05)
        service.heal()

    assert await _shown(world, answering) == [SHORT]
    assert await world.states() == {step_id(0): "sent"}


def _seconds(service: ChatService) -> float:
    first, *_, last = (call.at for call in service.made("send"))
    return last - first


async def test_a_part_that_is_refused_is_told_and_parked() -> None:
    """Not all of it is there for good, and it would be refused again."""
    world = await World.made(ChatService())
    world.service.fail("send", ContentRefused(), when=lambda made: "cursed" in made.text, for_ever=True)
    await world.leaves("This is cursed.", "This is not.")
    told, after = await _shown(world)
    assert "did not take a part" in told
    assert after == "This is not."
    assert await world.states() == {"out_0": "parked", "out_1": "sent"}


async def test_a_pause_of_hours_loses_nothing() -> None:
    """The text waits, other chats go on, a shutdown does not wait for it, and the next process sends it plainly."""
    service = ChatService()
    world = await World.made(service, timing=replace(AT_ONCE, close_timeout=0.02))
    paused = service.fail("send", SlowDown(13_938.0), when=lambda made: made.chat_id == "alice")

    async def answering(process: Process) -> None:
        await process.answer([STORY], sizes=[40], pauses=[10])
        await paused.reached.wait()
        process.delivery.follow("another", Place("bob"))
        process.play_in("another", TurnStarted("m2", "hi"), TurnDone("For Bob."))
        await service.until(lambda: service.texts("bob") == ["For Bob."])
        await world.outbox_reads(lambda states: states == {step_id(0): "pending"})

    await world.run(answering)
    assert len([call for call in service.made("send") if call.chat_id == "alice"]) == 1
    assert await world.states() == {step_id(0): "pending"}
    world.timing = AT_ONCE
    await world.run(nothing_new)
    alices = [message for message in service.messages if message.place.chat_id == "alice"]
    assert reads_as(alices, STORY)
    assert not any(POSSIBLY_TWICE in message.text for message in alices)


async def test_a_pause_is_no_failure() -> None:
    """A service that asks for a long pause is there: only failures without a word from it count together."""
    service = ChatService()
    world = await World.made(service, timing=replace(AT_ONCE, best_effort_timeout=0.05, durable_timeout=0.05))
    for error in (Unreachable(maybe_done=False), SlowDown(0.06), Unreachable(maybe_done=False)):
        service.fail("send", error)
    await world.leaves("At last.")
    assert await _shown(world) == ["At last."]
    assert await world.states() == {"out_0": "sent"}


async def test_a_call_that_a_shutdown_cuts_off_is_in_doubt() -> None:
    """Nobody knows whether it was carried out."""
    service = ChatService()
    world = await World.made(service, timing=replace(FAST, close_timeout=0.02))
    service.hold("send")
    await world.run(_answering(SHORT))
    assert await world.states() == {step_id(0): "sending"}
    world.timing = FAST
    assert await _shown(world) == [f"{POSSIBLY_TWICE}\n\n{SHORT}"]


@pytest.mark.parametrize("is_told", [True, False])
async def test_an_answer_that_a_shutdown_cuts_short_comes_anew(is_told: bool) -> None:
    """Until then it can be read as far as it got; then nothing of it stays."""
    service = ChatService()
    world = await World.made(service)

    async def interrupted(process: Process) -> None:
        process.begin()
        process.play(StepStarted(step_id(0)), TextDelta("As far as it got"))
        await service.until(lambda: bool(service.messages))
        if is_told:
            process.play(TurnFailed("The answer comes later."))

    told = ["⚠ The answer comes later."] if is_told else []
    assert await _shown(world, interrupted) == ["As far as it got", *told]
    assert await _shown(world, _answering(OTHERWISE)) == [*told, OTHERWISE]


async def test_an_answer_that_nobody_has_seen_is_not_begun_at_a_shutdown() -> None:
    """It would have to be taken away at once."""
    world = await World.made(ChatService(), timing=FAST)

    async def interrupted(process: Process) -> None:
        process.begin()
        process.play(StepStarted(step_id(0)), TextDelta("As far as"))

    assert await _shown(world, interrupted) == []


# -- what it costs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("streamed", "notes"), [(False, 2), (True, 3)])
async def test_an_answer_costs_few_writes(streamed: bool, notes: int) -> None:
    """One before it is sent, one after; one more if it is seen while it grows, however long that takes."""
    service = ChatService()
    world = await World.made(service)

    async def answering(process: Process) -> None:
        process.begin()
        process.play(StepStarted(step_id(0)))
        for number in range(20 if streamed else 0):
            process.play(TextDelta(f"[{number}]"))
            await service.until(lambda number=number: any(f"[{number}]" in text for text in service.texts()))
        text = "".join(f"[{number}]" for number in range(20))
        await process.store(step_id(0), text)
        process.play(TurnDone(text))
        await service.until(lambda: any(message.formatted for message in service.messages))
        await world.outbox_reads(lambda states: states == {step_id(0): "sent"})
        assert process.life.done["save_progress"] == notes

    await world.run(answering)


async def test_a_store_that_is_full_costs_nobody_their_answer() -> None:
    """Nothing can be written down, and all is shown; what was not written is written with the next change."""
    service = ChatService()
    world = await World.made(service)

    async def answering(process: Process) -> None:
        process.life.fails["save_progress"] = StoreFull()
        process.begin()
        for number, text in enumerate(["Let me look.", SHORT]):
            process.play(StepStarted(step_id(number)), TextDelta(text))
            await process.store(step_id(number), text, is_last=number == 1)
        process.play(TurnDone(SHORT))
        await service.until(
            lambda: SHORT in service.texts()
        )  # by now the end of the other one was to be written
        process.life.fails.clear()
        await world.leaves("There is room again.")
        process.play(Notice("There is room again.", "out_0"))

    assert await _shown(world, answering) == ["Let me look.", SHORT, "There is room again."]
    assert set((await world.states()).values()) == {"sent"}


async def test_what_the_store_did_not_take_is_written_at_the_end() -> None:
    """Nothing changes any more, and there is room again when the process stops."""
    service = ChatService()
    world = await World.made(service)

    async def answering(process: Process) -> None:
        process.life.fails["save_progress"] = StoreFull()
        await process.answer([SHORT], sizes=[40], pauses=[0])
        process.play(Notice("An aside."))
        # It comes after the attempt to write down that the text has arrived.
        await service.until(lambda: "An aside." in service.texts())
        process.life.fails.clear()

    assert await _shown(world, answering) == [SHORT, "An aside."]
    assert await world.states() == {step_id(0): "sent"}
