"""What is on its way survives the process: wherever it dies, what people read in the end is the text, once."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import StoreFull
from agent.events import (
    ApprovalAsked,
    FileSent,
    Notice,
    Queued,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnFailed,
    TurnStarted,
)
from gateway.chat.contract import Place
from gateway.chat.errors import ContentRefused, DeliveryError, SlowDown, Undeliverable, Unreachable
from gateway.chat.showing.block import POSSIBLY_TWICE
from gateway.chat.showing.passage import CURSOR
from gateway.outbox import Outgoing, Progress, file_content
from tests.chat.chat_room import FAST, reads_as
from tests.chat.mortal import AT_ONCE, QUESTION, Process, Script, World, step_id
from tests.chat.service import ChatService, Shown

SHORT = "A short answer, with **some** weight."
STORY = "\n\n".join(f"Paragraph {number} of a story that takes several messages." for number in range(9))
CODE = (
    "Look:\n\n```python\n" + "\n".join(f"value_{number} = {number}" for number in range(30)) + "\n```\n\nSo."
)
OTHERWISE = "The same, said in other words, because it is written anew."


def _answering(*steps: str) -> Script:
    async def script(process: Process) -> None:
        await process.answer(list(steps), sizes=[40], pauses=[60])

    return script


async def _nothing_new(process: Process) -> None:
    """Only what is left."""


async def _deaths(
    script: Script, then: Script, service: ChatService, file: Path | None = None
) -> list[World]:
    """A world for each step at which a process can die, once the next process is through."""
    worlds: list[World] = []
    while True:
        its_own = ChatService(limit=service.limit, can_edit=service.can_edit, pace=0.0)
        world = await World.made(its_own, file=file and file / f"{len(worlds)}.db")
        if not await world.run(script, dies_at=len(worlds) + 1):
            await world.store.close()
            return worlds
        await world.run(then)
        worlds.append(world)


def _ghosts(messages: list[Shown]) -> list[Shown]:
    """Those that are there, and nobody knows; a tool line among them cannot be helped."""
    return [message for message in messages if message.is_ghost and not message.text.startswith("⚙")]


def _certain(world: World) -> list[Shown]:
    return [message for message in world.service.messages if not message.is_ghost]


async def _shown(world: World, script: Script = _nothing_new) -> list[str]:
    """What people see once another process is through."""
    await world.run(script)
    return world.service.texts()


# -- wherever a process dies ---------------------------------------------------------------------------------


@pytest.mark.parametrize("can_edit", [True, False])
@pytest.mark.parametrize(
    ("steps", "anew"),
    [([SHORT], [OTHERWISE]), ([CODE], [STORY]), (["Let me look.", STORY], ["Let us see.", OTHERWISE])],
    ids=["short", "code in several messages", "two steps with a tool between"],
)
async def test_a_text_is_read_once(steps: list[str], anew: list[str], can_edit: bool) -> None:
    """The text that is stored, whole, without a cursor or a tool line; marked if it was being sent, and only then. What
    was not stored is written anew, and nothing of the first attempt stays."""
    service = ChatService(limit=200, can_edit=can_edit)
    for world in await _deaths(_answering(*steps), _answering(*anew), service):
        shown = [message for message in world.service.messages if message.data is None]
        texts = [message.text for message in shown if not message.is_ghost]
        assert reads_as(shown, await world.said()), texts
        assert not any(CURSOR in text or "⚙" in text for text in texts)
        marked = [text for text in texts if POSSIBLY_TWICE in text]
        assert len(marked) == world.deaths_in_doubt
        assert marked or not _ghosts(shown)
        assert await world.open() == []
        assert world.service.violations == []


async def test_a_text_is_read_once_from_a_file(tmp_path: Path) -> None:
    """The same with the database that people have."""
    for world in await _deaths(_answering(SHORT), _answering(OTHERWISE), ChatService(), tmp_path):
        assert reads_as(_certain(world), await world.said())
        assert world.deaths_in_doubt == len(
            [text for text in world.service.texts() if POSSIBLY_TWICE in text]
        )
        await world.store.close()


async def test_a_file_is_sent_once(tmp_path: Path) -> None:
    """It says so if it may be there twice. It is read where it lies, when it is sent."""
    (tmp_path / "report.csv").write_bytes(b"a,b\n")
    file = FileSent(str(tmp_path), "report.csv", "report.csv", "The report")

    async def giving(process: Process) -> None:
        if await process.world.store.known([step_id(0)]):
            return
        process.begin()
        where = {"conversation_id": process.world.conversation.id, "turn_id": QUESTION}
        await process.outbox.add("out_1", **where, kind="file", content=file_content(file))
        process.play(replace(file, outbox_id="out_1"))
        await process.store(step_id(0), "There.")
        process.play(StepStarted(step_id(0)), TextDelta("There."), TurnDone("There."))

    sent_twice = 0
    for world in await _deaths(giving, _nothing_new, ChatService()):
        files = [message for message in world.service.messages if message.data is not None]
        assert all((message.name, message.data) == ("report.csv", b"a,b\n") for message in files)
        lost, certain = _ghosts(files), [message.text for message in files if not message.is_ghost]
        assert len(certain) <= 1
        assert not lost or certain == [f"The report\n{POSSIBLY_TWICE}"]
        assert await world.open() == []
        sent_twice += bool(lost)
    assert sent_twice


# -- what must not stay --------------------------------------------------------------------------------------


async def _leaving(process: Process, *, sees: str) -> None:
    """The process dies as soon as this is seen and written down."""
    await process.world.service.until(lambda: any(sees in text for text in process.world.service.texts()))
    shown = len(process.world.service.messages)
    await process.world.outbox_reads(lambda states: len(states) == shown)
    process.life.die()
    await process.life.step()


async def test_what_shows_that_something_goes_on_does_not_outlive_it() -> None:
    """The tool line and the acknowledgement of a message that waits: a new process knows nothing of either."""

    async def working(process: Process) -> None:
        process.begin()
        process.play(ToolStarted("c1", "terminal", "{}"), Queued("m2", "and?", "queue", 1))
        await process.world.service.until(lambda: len(process.world.service.messages) == 2)
        await _leaving(process, sees="⏳")

    world = await World.made(ChatService())
    assert await world.run(working)
    assert len(world.service.messages) == 2
    assert [message.text for message in _certain(world)] == world.service.texts()
    assert await _shown(world) == []
    assert await world.open() == []


async def test_a_question_that_was_left_open_says_so() -> None:
    """Its buttons would do nothing any more."""
    asked = ApprovalAsked(
        "ap_1", "terminal", json.dumps({"command": "ls"}), "memory:alice", time.time() + 300
    )

    async def asking(process: Process) -> None:
        process.begin()
        process.play(ToolStarted("c1", "terminal", "{}"), asked)
        await _leaving(process, sees="May I run")

    world = await World.made(ChatService())
    assert await world.run(asking)
    await world.run(_nothing_new)
    (question,) = world.service.messages
    assert question.text == "⌛ No longer open; Hermes was restarted: `terminal`\n```\nls\n```"
    assert question.buttons == ()
    assert await world.open() == []


async def test_what_cannot_be_removed_holds_up_nothing() -> None:
    """The service refuses it, or is away for that one verb: the answer that is left comes first."""
    world = await World.made(ChatService(), timing=replace(AT_ONCE, longest_backoff=0.005, patience=0.02))
    left = Outgoing("out_1", world.conversation.id, QUESTION, "", Place("alice"), "fleeting", None)
    await world.store.outbox.note(
        "memory", replace(left, progress=Progress(shown_in=("m8", "m9"), growing=True))
    )
    await world.store.outbox.add(
        "out_2", conversation_id=world.conversation.id, turn_id=QUESTION, kind="notice", content="Here I am."
    )
    world.service.fail("delete", Unreachable(), for_ever=True)
    await world.run(_nothing_new)
    assert world.service.texts() == ["Here I am."]
    calls = [call.verb for call in world.service.calls]
    assert calls.index("send") <= 1
    assert {call.message_id for call in world.service.made("delete")} == {"m8", "m9"}
    assert await world.open() == []


async def test_a_doubt_stays_until_the_text_is_whole() -> None:
    """Nobody knows whether its first message arrived; the process dies three messages later. The text that is written
    anew says so, although nothing was under way just then."""
    service = ChatService(limit=200)
    world = await World.made(service)
    service.fail("send", Unreachable(maybe_done=True), carried_out=True)

    async def dying(process: Process) -> None:
        process.begin()
        process.play(StepStarted(step_id(0)), TextDelta(STORY))
        await service.until(lambda: len(service.messages) > 3 and CURSOR in service.texts()[-1])
        newest = service.messages[-1].id
        await world.has_open(lambda left: left[0].progress.shown_in[-1:] == (newest,))
        process.life.die()
        await process.life.step()

    assert await world.run(dying)
    assert len(service.messages) > 3
    await world.run(_answering(OTHERWISE))
    assert service.texts()[1:] == [f"{POSSIBLY_TWICE}\n\n{OTHERWISE}"]
    assert service.messages[0].is_ghost


# -- a new process -------------------------------------------------------------------------------------------


async def _left_behind(world: World, *texts: str, kind: str = "notice") -> None:
    for number, text in enumerate(texts):
        await world.store.outbox.add(
            f"out_{number}",
            conversation_id=world.conversation.id,
            turn_id=QUESTION,
            kind="notice" if kind == "notice" else "file",
            content=text,
        )


async def test_what_is_left_comes_before_anything_new() -> None:
    """In order, as a reply while nothing of it is seen, and with a sound if it tells of a failure."""
    world = await World.made(ChatService())
    await _left_behind(world, "One.", "⚠ Two.")

    async def answering(process: Process) -> None:
        process.begin()
        process.play(TextDelta("Three."), TurnDone("Three."))

    assert await _shown(world, answering) == ["One.", "⚠ Two.", "Three."]
    assert [message.silent for message in world.service.messages] == [True, False, False]
    assert [message.reply_to for message in world.service.messages] == ["p1", "p1", ""]


async def test_what_nobody_can_read_is_parked() -> None:
    """Another version of Hermes may have written it; the rest is brought."""
    world = await World.made(ChatService())
    await _left_behind(world, '{"colour": "green"}', kind="file")
    await world.store.outbox.add(
        "out_2", conversation_id=world.conversation.id, turn_id=QUESTION, kind="notice", content="Two."
    )
    assert await _shown(world) == ["Two."]
    assert await world.open() == []


async def test_a_text_without_a_turn_that_would_finish_it_is_forgotten() -> None:
    """The message was given up: what is seen of its answer goes, and the doubt about it with it."""
    world = await World.made(ChatService())
    left = Outgoing(step_id(0), world.conversation.id, QUESTION, "p1", Place("alice"), "text", None)
    await world.store.outbox.note(
        "memory", replace(left, progress=Progress("sending", ("m1",), growing=True))
    )
    await world.store.inbox.park(QUESTION, "it broke down")
    await world.run(_nothing_new)
    assert [call.message_id for call in world.service.made("delete")] == ["m1"]
    assert await world.open() == []


# -- nobody there, pauses, shutdown --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [Undeliverable(), Unreachable(maybe_done=False)], ids=lambda error: type(error).__name__
)
async def test_what_cannot_be_brought_is_parked(error: DeliveryError) -> None:
    """Nothing more of the turn is tried, and nothing again after a restart."""
    world = await World.made(ChatService(), timing=replace(AT_ONCE, patience=0.01))
    world.service.fail("send", error, for_ever=True)

    async def answering(process: Process) -> None:
        process.begin()
        process.play(StepStarted(step_id(0)), TextDelta("Let me look."))
        await process.store(step_id(0), "Let me look.", is_last=False)
        process.play(ToolStarted("c1", "tool", "{}"), ToolFinished("c1", "tool", True, "", 0.0))
        await world.service.until(lambda: bool(world.service.made("send")))
        await world.outbox_reads(lambda states: states.get(step_id(0)) == "parked")
        await _left_behind(world, "A notice.")
        process.play(Notice("A notice.", "out_0"), StepStarted(step_id(1)), TextDelta("So."))
        await process.store(step_id(1), "So.")
        process.play(TurnDone("So."))

    await world.run(answering)
    assert await world.states() == dict.fromkeys([step_id(0), "out_0", step_id(1)], "parked")
    made = len(world.service.calls)
    world.service.heal()
    assert await _shown(world) == []
    assert len(world.service.calls) == made


async def test_a_part_that_is_refused_is_told_and_parked() -> None:
    """Not all of it is there for good, and it would be refused again."""
    world = await World.made(ChatService())
    world.service.fail("send", ContentRefused(), when=lambda made: "cursed" in made.text, for_ever=True)
    await _left_behind(world, "This is cursed.", "This is not.")
    told, after = await _shown(world)
    assert "did not take a part" in told
    assert after == "This is not."
    assert await world.states() == {"out_0": "parked", "out_1": "sent"}


async def test_a_pause_of_hours_loses_nothing() -> None:
    """The text waits, other chats go on, a shutdown does not wait for it, and the next process sends it plainly."""
    service = ChatService()
    world = await World.made(service, timing=replace(AT_ONCE, closing=0.02))
    paused = service.fail("send", SlowDown(13_938.0), when=lambda made: made.chat_id == "alice")

    async def answering(process: Process) -> None:
        await process.answer([STORY], sizes=[40], pauses=[10])
        await paused.reached.wait()
        process.followers.follow("another", Place("bob"))
        process.play_in("another", TurnStarted("m2", "hi"), TurnDone("For Bob."))
        await service.until(lambda: service.texts("bob") == ["For Bob."])
        await world.outbox_reads(lambda states: states == {step_id(0): "pending"})

    await world.run(answering)
    assert len([call for call in service.made("send") if call.chat_id == "alice"]) == 1
    assert await world.states() == {step_id(0): "pending"}
    await world.run(_nothing_new)
    alices = [message for message in service.messages if message.place.chat_id == "alice"]
    assert reads_as(alices, STORY)
    assert not any(POSSIBLY_TWICE in message.text for message in alices)


async def test_a_pause_is_no_failure() -> None:
    """A service that asks for a long pause is there: only failures without a word from it count together."""
    service = ChatService()
    world = await World.made(service, timing=replace(AT_ONCE, patience=0.05))
    for error in (Unreachable(maybe_done=False), SlowDown(0.06), Unreachable(maybe_done=False)):
        service.fail("send", error)
    await _left_behind(world, "At last.")
    assert await _shown(world) == ["At last."]
    assert await world.states() == {"out_0": "sent"}


async def test_a_call_that_a_shutdown_cuts_off_is_in_doubt() -> None:
    """Nobody knows whether it was carried out."""
    service = ChatService()
    world = await World.made(service, timing=replace(FAST, closing=0.02))
    service.hold("send")
    await world.run(_answering(SHORT))
    assert await world.states() == {step_id(0): "sending"}
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
        assert process.life.done["note"] == notes

    await world.run(answering)


async def test_a_store_that_is_full_costs_nobody_their_answer() -> None:
    """Nothing can be written down, and all is shown; what was not written is written with the next change."""
    service = ChatService()
    world = await World.made(service)

    async def answering(process: Process) -> None:
        process.life.fails["note"] = StoreFull()
        process.begin()
        for number, text in enumerate(["Let me look.", SHORT]):
            process.play(StepStarted(step_id(number)), TextDelta(text))
            await process.store(step_id(number), text, is_last=number == 1)
        process.play(TurnDone(SHORT))
        await service.until(
            lambda: SHORT in service.texts()
        )  # by now the end of the other one was to be written
        process.life.fails.clear()
        await _left_behind(world, "There is room again.")
        process.play(Notice("There is room again.", "out_0"))

    assert await _shown(world, answering) == ["Let me look.", SHORT, "There is room again."]
    assert set((await world.states()).values()) == {"sent"}


async def test_what_the_store_did_not_take_is_written_at_the_end() -> None:
    """Nothing changes any more, and there is room again when the process stops."""
    service = ChatService()
    world = await World.made(service)

    async def answering(process: Process) -> None:
        process.life.fails["note"] = StoreFull()
        await process.answer([SHORT], sizes=[40], pauses=[0])
        process.play(Notice("An aside."))
        # It comes after the attempt to write down that the text has arrived.
        await service.until(lambda: "An aside." in service.texts())
        process.life.fails.clear()

    assert await _shown(world, answering) == [SHORT, "An aside."]
    assert await world.states() == {step_id(0): "sent"}
