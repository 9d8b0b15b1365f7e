"""The outbox: wherever the process dies, people read the text once in the end."""

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
from tests.support.chat_harness import reads_as
from tests.support.chat_service import ChatService, VisibleMessage
from tests.support.crashing_process import (
    AT_ONCE,
    QUESTION,
    CrashHarness,
    Process,
    Script,
    only_recover,
    step_id,
)

SHORT = "A short answer, with **some** weight."
STORY = "\n\n".join(f"Paragraph {number} of a story that takes several messages." for number in range(9))
CODE = (
    "Look:\n\n```python\n" + "\n".join(f"value_{number} = {number}" for number in range(30)) + "\n```\n\nSo."
)
REWRITTEN = "The same, in other words, because it is written again."


def _answering(*steps: str) -> Script:
    async def script(process: Process) -> None:
        await process.answer(list(steps), sizes=[40], pauses=[60])

    return script


async def _crashes(
    script: Script, then: Script, service: ChatService, file: Path | None = None
) -> list[CrashHarness]:
    """Yield a harness for each step at which a process can die, after the next process has finished."""
    crashed: list[CrashHarness] = []
    while True:
        its_own = ChatService(limit=service.limit, can_edit=service.can_edit, pace=0.0)
        harness = await CrashHarness.create(its_own, file=file and file / f"{len(crashed)}.db")
        if not await harness.run(script, crash_at=len(crashed) + 1):
            await harness.store.close()
            return crashed
        await harness.run(then)
        crashed.append(harness)


def _ghosts(messages: list[VisibleMessage]) -> list[VisibleMessage]:
    """Return the messages whose ids were never saved; a lost status message cannot be avoided."""
    return [message for message in messages if message.is_ghost and not message.text.startswith("⚙")]


def _certain(harness: CrashHarness) -> list[VisibleMessage]:
    return [message for message in harness.service.messages if not message.is_ghost]


async def _shown(harness: CrashHarness, script: Script = only_recover) -> list[str]:
    """Return what people see after another process has finished."""
    await harness.run(script)
    return harness.service.texts()


# -- crashes at every step -----------------------------------------------------------------------------------


@pytest.mark.parametrize("can_edit", [True, False])
@pytest.mark.parametrize(
    ("steps", "rewritten"),
    [([SHORT], [REWRITTEN]), ([CODE], [STORY]), (["Let me look.", STORY], ["Let us see.", REWRITTEN])],
    ids=["short", "code in several messages", "two steps with a tool between"],
)
async def test_a_text_is_read_once(steps: list[str], rewritten: list[str], can_edit: bool) -> None:
    """People see the stored text, complete and without cursor or status message; it is marked only if it was being
    sent. A text that was not stored is written again, and nothing of the first attempt stays."""
    service = ChatService(limit=200, can_edit=can_edit)
    for harness in await _crashes(_answering(*steps), _answering(*rewritten), service):
        shown = [message for message in harness.service.messages if message.data is None]
        texts = [message.text for message in shown if not message.is_ghost]
        assert reads_as(shown, await harness.stored_text()), texts
        assert not any(CURSOR in text or "⚙" in text for text in texts)
        marked = [text for text in texts if POSSIBLY_TWICE in text]
        assert len(marked) == harness.doubtful_crashes
        assert marked or not _ghosts(shown)
        if await harness.stored_text() == "".join(steps):
            finished = [message.text for message in _ghosts(shown) if message.formatted]
            assert finished in ([], [text.removeprefix(f"{POSSIBLY_TWICE}\n\n") for text in marked])
        assert await harness.undelivered() == []
        assert harness.service.violations == []


def _restarted(first: str, then: str) -> Script:
    async def script(process: Process) -> None:
        process.start_turn()
        await process.write(0, first, sizes=[40], pauses=[60])
        process.start_turn()
        await process.write(1, then, sizes=[40], pauses=[60])
        await process.store(step_id(1), then)
        process.publish(TurnDone(then))

    return script


def _answering_unless_answered(text: str) -> Script:
    async def script(process: Process) -> None:
        if not await process.harness.store.sessions.known([step_id(1)]):
            await process.answer([text], sizes=[40], pauses=[60])

    return script


@pytest.mark.parametrize("first", [SHORT, CODE], ids=["short", "code in several messages"])
async def test_a_restarted_turn_retracts_its_text(first: str) -> None:
    """If the store refuses an answer, all its messages are deleted, also if the process dies meanwhile."""
    whole = await CrashHarness.create(ChatService(limit=200, pace=0.0))
    await whole.run(_restarted(first, STORY))
    then = _answering_unless_answered(REWRITTEN)
    for harness in (whole, *await _crashes(_restarted(first, STORY), then, ChatService(limit=200))):
        shown = harness.service.messages
        texts = [message.text for message in shown if not message.is_ghost]
        assert reads_as(shown, await harness.stored_text()), texts
        assert not any(CURSOR in text for text in texts)
        is_anew = await harness.stored_text() == REWRITTEN
        assert not is_anew or any(POSSIBLY_TWICE in text for text in texts) or not _ghosts(shown)
        assert all(
            left.content is None and not left.progress.shown_in for left in await harness.undelivered()
        )
        await harness.run(only_recover)
        assert await harness.undelivered() == []
        assert [message.text for message in shown if not message.is_ghost] == texts
        assert harness.service.violations == []


@pytest.mark.parametrize("refused", [Unreachable("", maybe_done=False), MessageGone()])
async def test_a_retracted_text_is_deleted_if_possible(refused: DeliveryError) -> None:
    """A delete call is repeated while the service is unreachable and not repeated if the service refuses; the new text
    comes either way."""
    harness = await CrashHarness.create(ChatService(limit=200, pace=0.0))
    harness.service.fail("delete", refused)
    await harness.run(_restarted(SHORT, REWRITTEN))
    *before, last = harness.service.texts()
    assert before == ([] if isinstance(refused, Unreachable) else [SHORT + CURSOR])
    assert last.endswith(REWRITTEN)
    assert await harness.undelivered() == []


async def test_a_message_in_flight_is_retracted_once_it_arrives() -> None:
    """The call in flight may be lost, so the new text is marked."""
    harness = await CrashHarness.create(ChatService(limit=200, pace=0.0))
    held = harness.service.hold("send")

    async def script(process: Process) -> None:
        process.start_turn()
        process.publish(StepStarted(step_id(0)), TextDelta(SHORT))
        await held.reached.wait()
        process.start_turn()
        assert held.gate
        held.gate.set()
        await process.write(1, REWRITTEN, sizes=[40], pauses=[60])
        await process.store(step_id(1), REWRITTEN)
        process.publish(TurnDone(REWRITTEN))

    await harness.run(script)
    assert harness.service.texts() == [f"{POSSIBLY_TWICE}\n\n{REWRITTEN}"]
    assert await harness.undelivered() == []


async def test_a_text_is_read_once_from_a_file(tmp_path: Path) -> None:
    """The same on a database that is reopened."""
    for harness in await _crashes(_answering(SHORT), _answering(REWRITTEN), ChatService(), tmp_path):
        assert reads_as(_certain(harness), await harness.stored_text())
        assert harness.doubtful_crashes == len(
            [text for text in harness.service.texts() if POSSIBLY_TWICE in text]
        )
        await harness.store.close()


async def test_a_file_is_sent_once(tmp_path: Path) -> None:
    """A file that may have arrived twice is marked. It is read from the workspace when it is sent."""
    (tmp_path / "report.csv").write_bytes(b"a,b\n")
    file = FileSent(str(tmp_path), "report.csv", "report.csv", "The report")

    async def giving(process: Process) -> None:
        if await process.harness.store.sessions.known([step_id(0)]):
            return
        process.start_turn()
        where = {"conversation_id": process.harness.conversation.id, "turn_id": QUESTION}
        await process.outbox.add("out_1", **where, kind="file", content=file_content(file))
        process.publish(replace(file, outbox_id="out_1"))
        await process.store(step_id(0), "There.")
        process.publish(StepStarted(step_id(0)), TextDelta("There."), TurnDone("There."))

    sent_twice = 0
    for harness in await _crashes(giving, only_recover, ChatService()):
        files = [message for message in harness.service.messages if message.data is not None]
        assert all((message.name, message.data) == ("report.csv", b"a,b\n") for message in files)
        lost, certain = _ghosts(files), [message.text for message in files if not message.is_ghost]
        assert len(certain) <= 1
        assert not lost or certain == [f"The report\n{POSSIBLY_TWICE}"]
        assert await harness.undelivered() == []
        sent_twice += bool(lost)
    assert sent_twice


# -- transient messages ---------------------------------------------------------------------------------------


async def _crash_after(process: Process, *, sees: str) -> None:
    """Kill the process as soon as this is visible and saved."""
    await process.harness.service.until(lambda: any(sees in text for text in process.harness.service.texts()))
    shown = len(process.harness.service.messages)
    await process.harness.wait_for_states(lambda states: len(states) == shown)
    process.schedule.crash()
    await process.schedule.step()


async def test_status_messages_do_not_outlive_the_process() -> None:
    """The next process deletes the tool status and the queued notice."""

    async def working(process: Process) -> None:
        process.start_turn()
        process.publish(ToolStarted("c1", "terminal", "{}"), Queued("m2", "and?", "queue", 1))
        await process.harness.service.until(lambda: len(process.harness.service.messages) == 2)
        await _crash_after(process, sees="⏳")

    harness = await CrashHarness.create(ChatService())
    assert await harness.run(working)
    assert len(harness.service.messages) == 2
    assert [message.text for message in _certain(harness)] == harness.service.texts()
    assert await _shown(harness) == []
    assert await harness.undelivered() == []


async def test_an_interrupted_approval_says_so() -> None:
    """The buttons of the question would no longer work."""
    asked = ApprovalAsked(
        "ap_1", "terminal", json.dumps({"command": "ls"}), "memory:alice", time.time() + 300
    )

    async def asking(process: Process) -> None:
        process.start_turn()
        process.publish(ToolStarted("c1", "terminal", "{}"), asked)
        await _crash_after(process, sees="May I run")

    harness = await CrashHarness.create(ChatService())
    assert await harness.run(asking)
    await harness.run(only_recover)
    (question,) = harness.service.messages
    assert question.text == "⌛ No longer open; Hermes was restarted: `terminal`\n```\nls\n```"
    assert question.buttons == ()
    assert await harness.undelivered() == []


async def test_a_message_that_cannot_be_deleted_blocks_nothing() -> None:
    """The service refuses to delete or is unreachable for deletes only: the answer comes first."""
    harness = await CrashHarness.create(
        ChatService(), timing=replace(AT_ONCE, max_backoff=0.005, best_effort_timeout=0.02)
    )
    left = OutboxItem("out_1", harness.conversation.id, QUESTION, "", Place("alice"), "transient", None)
    await harness.store.outbox.save_progress(
        "memory", replace(left, progress=DeliveryProgress(shown_in=("m8", "m9"), is_streaming=True))
    )
    await harness.store.outbox.add(
        "out_2",
        conversation_id=harness.conversation.id,
        turn_id=QUESTION,
        kind="notice",
        content="Here I am.",
    )
    harness.service.fail("delete", Unreachable(), permanent=True)
    await harness.run(only_recover)
    assert harness.service.texts() == ["Here I am."]
    calls = [call.verb for call in harness.service.calls]
    assert calls.index("send") <= 1
    assert {call.message_id for call in harness.service.calls_of("delete")} == {"m8", "m9"}
    assert await harness.undelivered() == []


async def test_a_doubt_stays_until_the_text_is_complete() -> None:
    """The first message may or may not have arrived, and the process dies three messages later. The text that is
    written again is marked although no call was in flight at that moment."""
    service = ChatService(limit=200)
    harness = await CrashHarness.create(service)
    service.fail("send", Unreachable(maybe_done=True), executed=True)

    async def dying(process: Process) -> None:
        process.start_turn()
        process.publish(StepStarted(step_id(0)), TextDelta(STORY))
        await service.until(lambda: len(service.messages) > 3 and CURSOR in service.texts()[-1])
        newest = service.messages[-1].id
        await harness.wait_for_undelivered(lambda left: left[0].progress.shown_in[-1:] == (newest,))
        process.schedule.crash()
        await process.schedule.step()

    assert await harness.run(dying)
    assert len(service.messages) > 3
    await harness.run(_answering(REWRITTEN))
    assert service.texts()[1:] == [f"{POSSIBLY_TWICE}\n\n{REWRITTEN}"]
    assert service.messages[0].is_ghost


# -- a new process -------------------------------------------------------------------------------------------


async def test_undelivered_items_come_first() -> None:
    """They come in order, as a reply while nothing of them is visible, and with a notification for a failure."""
    harness = await CrashHarness.create(ChatService())
    await harness.add_items("One.", "⚠ Two.")

    async def answering(process: Process) -> None:
        process.start_turn()
        process.publish(TextDelta("Three."), TurnDone("Three."))

    assert await _shown(harness, answering) == ["One.", "⚠ Two.", "Three."]
    assert [message.silent for message in harness.service.messages] == [True, False, False]
    assert [message.reply_to for message in harness.service.messages] == ["p1", "p1", ""]


async def test_an_unreadable_item_is_parked() -> None:
    """Another version of Hermes may have written it; the other items are delivered."""
    harness = await CrashHarness.create(ChatService())
    await harness.add_items('{"colour": "green"}', kind="file")
    await harness.store.outbox.add(
        "out_2", conversation_id=harness.conversation.id, turn_id=QUESTION, kind="notice", content="Two."
    )
    assert await _shown(harness) == ["Two."]
    assert await harness.undelivered() == []


async def test_a_text_of_an_abandoned_turn_is_dropped() -> None:
    """The visible part of the answer is deleted, and the doubt about it is dropped."""
    harness = await CrashHarness.create(ChatService())
    left = OutboxItem(step_id(0), harness.conversation.id, QUESTION, "p1", Place("alice"), "text", None)
    await harness.store.outbox.save_progress(
        "memory", replace(left, progress=DeliveryProgress("sending", ("m1",), is_streaming=True))
    )
    await harness.store.inbox.park([QUESTION], "it broke down")
    await harness.run(only_recover)
    assert [call.message_id for call in harness.service.calls_of("delete")] == ["m1"]
    assert await harness.undelivered() == []
