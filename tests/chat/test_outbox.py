"""What is on its way survives the process: wherever it dies, what people read in the end is the text, once."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agent.events import (
    ApprovalAsked,
    FileSent,
    Queued,
    StepStarted,
    TextDelta,
    ToolStarted,
    TurnDone,
)
from gateway.chat.delivery.item import POSSIBLY_TWICE
from gateway.chat.delivery.text_message import CURSOR
from gateway.chat.errors import DeliveryError, MessageGone, Unreachable
from gateway.store.ports import DeliveryProgress, OutboxItem, file_content
from gateway.types import Place
from tests.chat.chat_room import reads_as
from tests.chat.mortal import AT_ONCE, QUESTION, Process, Script, World, nothing_new, step_id
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


async def _shown(world: World, script: Script = nothing_new) -> list[str]:
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
        if await world.said() == "".join(steps):
            finished = [message.text for message in _ghosts(shown) if message.formatted]
            assert finished in ([], [text.removeprefix(f"{POSSIBLY_TWICE}\n\n") for text in marked])
        assert await world.open() == []
        assert world.service.violations == []


def _begun_anew(first: str, then: str) -> Script:
    async def script(process: Process) -> None:
        process.begin()
        await process.write(0, first, sizes=[40], pauses=[60])
        process.begin()
        await process.write(1, then, sizes=[40], pauses=[60])
        await process.store(step_id(1), then)
        process.play(TurnDone(then))

    return script


def _answering_unless_answered(text: str) -> Script:
    async def script(process: Process) -> None:
        if not await process.world.store.sessions.known([step_id(1)]):
            await process.answer([text], sizes=[40], pauses=[60])

    return script


@pytest.mark.parametrize("first", [SHORT, CODE], ids=["short", "code in several messages"])
async def test_a_turn_that_is_begun_anew_takes_back_what_it_said(first: str) -> None:
    """As it is when the store has refused an answer: all that was seen of it goes, in every message, also where the
    process dies on the way."""
    whole = await World.made(ChatService(limit=200, pace=0.0))
    await whole.run(_begun_anew(first, STORY))
    then = _answering_unless_answered(OTHERWISE)
    for world in (whole, *await _deaths(_begun_anew(first, STORY), then, ChatService(limit=200))):
        shown = world.service.messages
        texts = [message.text for message in shown if not message.is_ghost]
        assert reads_as(shown, await world.said()), texts
        assert not any(CURSOR in text for text in texts)
        is_anew = await world.said() == OTHERWISE
        assert not is_anew or any(POSSIBLY_TWICE in text for text in texts) or not _ghosts(shown)
        assert all(left.content is None and not left.progress.shown_in for left in await world.open())
        await world.run(nothing_new)
        assert await world.open() == []
        assert [message.text for message in shown if not message.is_ghost] == texts
        assert world.service.violations == []


@pytest.mark.parametrize("refused", [Unreachable("", maybe_done=False), MessageGone()])
async def test_what_is_taken_back_is_taken_away_when_that_is_possible(refused: DeliveryError) -> None:
    """A service that is out of reach is asked again, one that refuses is not; and the new text comes either way."""
    world = await World.made(ChatService(limit=200, pace=0.0))
    world.service.fail("delete", refused)
    await world.run(_begun_anew(SHORT, OTHERWISE))
    *before, last = world.service.texts()
    assert before == ([] if isinstance(refused, Unreachable) else [SHORT + CURSOR])
    assert last.endswith(OTHERWISE)
    assert await world.open() == []


async def test_a_message_on_its_way_is_taken_back_once_it_is_there() -> None:
    """Nothing can be said of a call that is under way. It may be lost, so what is said anew is marked."""
    world = await World.made(ChatService(limit=200, pace=0.0))
    held = world.service.hold("send")

    async def script(process: Process) -> None:
        process.begin()
        process.play(StepStarted(step_id(0)), TextDelta(SHORT))
        await held.reached.wait()
        process.begin()
        assert held.gate
        held.gate.set()
        await process.write(1, OTHERWISE, sizes=[40], pauses=[60])
        await process.store(step_id(1), OTHERWISE)
        process.play(TurnDone(OTHERWISE))

    await world.run(script)
    assert world.service.texts() == [f"{POSSIBLY_TWICE}\n\n{OTHERWISE}"]
    assert await world.open() == []


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
        if await process.world.store.sessions.known([step_id(0)]):
            return
        process.begin()
        where = {"conversation_id": process.world.conversation.id, "turn_id": QUESTION}
        await process.outbox.add("out_1", **where, kind="file", content=file_content(file))
        process.play(replace(file, outbox_id="out_1"))
        await process.store(step_id(0), "There.")
        process.play(StepStarted(step_id(0)), TextDelta("There."), TurnDone("There."))

    sent_twice = 0
    for world in await _deaths(giving, nothing_new, ChatService()):
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
    await world.run(nothing_new)
    (question,) = world.service.messages
    assert question.text == "⌛ No longer open; Hermes was restarted: `terminal`\n```\nls\n```"
    assert question.buttons == ()
    assert await world.open() == []


async def test_what_cannot_be_removed_holds_up_nothing() -> None:
    """The service refuses it, or is away for that one verb: the answer that is left comes first."""
    world = await World.made(
        ChatService(), timing=replace(AT_ONCE, max_backoff=0.005, best_effort_timeout=0.02)
    )
    left = OutboxItem("out_1", world.conversation.id, QUESTION, "", Place("alice"), "transient", None)
    await world.store.outbox.save_progress(
        "memory", replace(left, progress=DeliveryProgress(shown_in=("m8", "m9"), is_streaming=True))
    )
    await world.store.outbox.add(
        "out_2", conversation_id=world.conversation.id, turn_id=QUESTION, kind="notice", content="Here I am."
    )
    world.service.fail("delete", Unreachable(), for_ever=True)
    await world.run(nothing_new)
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


async def test_what_is_left_comes_before_anything_new() -> None:
    """In order, as a reply while nothing of it is seen, and with a sound if it tells of a failure."""
    world = await World.made(ChatService())
    await world.leaves("One.", "⚠ Two.")

    async def answering(process: Process) -> None:
        process.begin()
        process.play(TextDelta("Three."), TurnDone("Three."))

    assert await _shown(world, answering) == ["One.", "⚠ Two.", "Three."]
    assert [message.silent for message in world.service.messages] == [True, False, False]
    assert [message.reply_to for message in world.service.messages] == ["p1", "p1", ""]


async def test_what_nobody_can_read_is_parked() -> None:
    """Another version of Hermes may have written it; the rest is brought."""
    world = await World.made(ChatService())
    await world.leaves('{"colour": "green"}', kind="file")
    await world.store.outbox.add(
        "out_2", conversation_id=world.conversation.id, turn_id=QUESTION, kind="notice", content="Two."
    )
    assert await _shown(world) == ["Two."]
    assert await world.open() == []


async def test_a_text_without_a_turn_that_would_finish_it_is_forgotten() -> None:
    """The message was given up: what is seen of its answer goes, and the doubt about it with it."""
    world = await World.made(ChatService())
    left = OutboxItem(step_id(0), world.conversation.id, QUESTION, "p1", Place("alice"), "text", None)
    await world.store.outbox.save_progress(
        "memory", replace(left, progress=DeliveryProgress("sending", ("m1",), is_streaming=True))
    )
    await world.store.inbox.park([QUESTION], "it broke down")
    await world.run(nothing_new)
    assert [call.message_id for call in world.service.made("delete")] == ["m1"]
    assert await world.open() == []
