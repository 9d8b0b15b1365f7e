"""Notices, approvals, files, and the end of a turn."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from agent.events import (
    ApprovalAsked,
    ApprovalSettled,
    Compacted,
    FileSent,
    Notice,
    Queued,
    Steered,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnEvent,
    TurnFailed,
    TurnStarted,
)
from gateway.chat.delivery.item import POSSIBLY_TWICE
from gateway.chat.errors import ContentRefused, MessageGone, SlowDown, Undeliverable, Unreachable
from gateway.text.display import code_block, escape_hidden, format_arguments, one_line
from gateway.types import Button
from tests.support.chat_harness import ALICE, FAST, GROUP, chat_room, reads_as
from tests.support.chat_service import ChatService

BEGIN = TurnStarted("msg", "hi")
Choice = Literal["once", "conversation", "deny", "expired"]


def _asked(command: str = "rm -rf build", tool: str = "terminal") -> ApprovalAsked:
    arguments = json.dumps({"command": command})
    return ApprovalAsked("ap_1", tool, arguments, "memory:alice", time.time() + 300)


def _file(path: Path, caption: str = "") -> FileSent:
    return FileSent(str(path.parent), path.name, path.name, caption)


# -- notices and endings -------------------------------------------------------------------------------------


async def test_a_notice_does_not_split_the_text() -> None:
    """It comes at once, silent and formatted, below the text that continues to grow in its own message."""
    async with chat_room() as room:
        room.play(BEGIN, TextDelta("The answer is being written"))
        answer = await room.sees("The answer is being")
        room.play(Notice("All is *well*."))
        notice = await room.sees("All is *well*.")
        assert (notice.formatted, notice.silent) == (True, True)
        room.play(TextDelta(" and is whole."), TurnDone("The answer is being written and is whole."))
        assert await room.ends() == [answer, notice]
        assert answer.text == "The answer is being written and is whole."


async def test_a_notice_outside_any_turn_is_shown() -> None:
    """For example the answer to a command that overtakes the queue."""
    async with chat_room() as room:
        room.play(Notice("Nothing is running."))
        assert [message.text for message in await room.ends()] == ["Nothing is running."]
        assert room.service.calls_of("typing") == []


async def test_a_long_notice_takes_several_messages() -> None:
    """Search results and help texts may be long."""
    text = "\n".join(f"{number}. a result that was found" for number in range(60))
    async with chat_room() as room:
        room.play(Notice(text))
        assert reads_as(await room.ends(), text)
        assert len(room.service.messages) > 3


async def test_a_compaction_is_one_silent_line() -> None:
    """It is good to know and needs no action."""
    async with chat_room() as room:
        room.play(BEGIN, Compacted("ses_2", 120, 24, 100_000, 20_000), TurnDone("So."))
        told, answer = await room.ends()
        assert told.text == "🗜 Condensed 120 → 24 messages; everything stays searchable."
        assert (told.silent, answer.text) == (True, "So.")


@pytest.mark.parametrize(
    ("before", "end", "expected"),
    [
        ([TextDelta("Half an answer")], TurnDone("", stopped=True), ["Half an answer", "Stopped."]),
        ([TextDelta("Half"), Notice("Stopped.")], TurnDone("", stopped=True), ["Half", "Stopped."]),
        ([], TurnDone("", stopped=True), ["Stopped."]),
        ([TextDelta("Half an answer")], TurnFailed("No model."), ["Half an answer", "⚠ No model."]),
        ([], TurnFailed("No model."), ["⚠ No model."]),
    ],
    ids=["stopped", "stopped by a command", "stopped before any text", "failed", "failed before any text"],
)
async def test_how_a_turn_ends_without_an_answer(
    before: list[TurnEvent], end: TurnEvent, expected: list[str]
) -> None:
    """The visible text is finished, and one sentence gives the reason."""
    async with chat_room() as room:
        room.play(BEGIN, *before)
        room.play(end)
        await room.ends()
        assert sorted(room.service.texts()) == sorted(expected)


async def test_a_failure_notifies_and_a_stop_does_not() -> None:
    """The person who stopped a turn knows it; the person who waits for an answer must hear that none comes."""
    async with chat_room() as room:
        room.play(BEGIN, TurnDone("", stopped=True), TurnStarted("m2", "hi"), TurnFailed("No model."))
        stopped, failed = await room.ends()
        assert (stopped.silent, failed.silent) == (True, False)
        assert failed.formatted


# -- approvals -----------------------------------------------------------------------------------------------


async def test_an_approval_shows_the_command_and_three_buttons() -> None:
    """The code block contains exactly what will run."""
    async with chat_room() as room:
        room.play(BEGIN, ToolStarted("c1", "terminal", "{}"), _asked())
        question = await room.sees("May I run `terminal`?")
        assert "```\nrm -rf build\n```" in question.text
        assert "within 5 min" in question.text
        assert question.formatted
        assert question.buttons == (
            Button("Once", "approve:ap_1:once"),
            Button("This conversation", "approve:ap_1:conversation"),
            Button("Deny", "approve:ap_1:deny"),
        )


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        ("once", "✅ Allowed once"),
        ("conversation", "✅ Allowed in this conversation"),
        ("deny", "🚫 Denied"),
        ("expired", "⌛ Not answered; not run"),
    ],
)
async def test_a_settled_approval_shows_the_outcome(choice: Choice, sentence: str) -> None:
    """The same message shows the command and the outcome, without buttons."""
    async with chat_room() as room:
        room.play(BEGIN, _asked())
        question = await room.sees("May I run")
        room.play(ApprovalSettled("ap_1", choice), TurnDone("Well."))
        await room.ends()
        assert question.text == f"{sentence}: `terminal`\n```\nrm -rf build\n```"
        assert question.buttons == ()
        assert room.service.texts() == [question.text, "Well."]


async def test_an_open_approval_hides_activity() -> None:
    """Neither a tool status nor the typing indicator is shown: the person must act."""
    async with chat_room() as room:
        room.play(BEGIN, ToolStarted("c1", "terminal", "{}"), _asked())
        await room.sees("May I run")
        before = len(room.typing_in(ALICE))
        # Another chat shows what is hidden here: when it has typed twice and shows its tool, this one has had time to.
        room.delivery.follow("conv_2", GROUP)
        for event in (BEGIN, ToolStarted("c2", "read_file", "{}")):
            room.hub.publish("conv_2", event)
        await room.service.until(lambda: len(room.typing_in(GROUP)) > 1)
        await room.sees("⚙ read_file")
        assert len(room.typing_in(ALICE)) == before
        assert not any("⚙" in text for text in room.service.texts(ALICE.chat_id))
        room.hub.publish("conv_2", TurnDone("Read."))
        room.play(ApprovalSettled("ap_1", "once"))
        await room.sees("⚙ terminal")
        room.play(ToolFinished("c1", "terminal", True, "", 1.0), TurnDone("Done."))
        await room.ends()
        assert [text.split(":")[0] for text in room.service.texts(ALICE.chat_id)] == [
            "✅ Allowed once",
            "Done.",
        ]


async def test_an_approval_settled_before_it_was_sent_is_not_sent() -> None:
    """The service was unreachable until the approval expired."""
    service = ChatService()
    service.fail(
        "send", Unreachable(maybe_done=False), when=lambda call: "May I" in call.text, permanent=True
    )
    async with chat_room(service) as room:
        room.play(BEGIN, _asked())
        await service.until(lambda: bool(service.calls_of("send")))
        room.play(ApprovalSettled("ap_1", "expired"), TurnDone("It was not run."))
        assert [message.text for message in await room.ends()] == ["It was not run."]


async def test_an_approval_settled_during_a_pause_is_not_sent() -> None:
    """The pause was longer than the approval was open."""
    service = ChatService()
    paused = service.fail("send", SlowDown(0.05))
    async with chat_room(service) as room:
        room.play(BEGIN, _asked())
        await paused.reached.wait()
        room.play(ApprovalSettled("ap_1", "expired"), TurnDone("It was not run."))
        assert [message.text for message in await room.ends()] == ["It was not run."]


async def test_an_approval_settled_in_flight_loses_its_buttons() -> None:
    """Buttons without effect must not stay."""
    async with chat_room() as room:
        slow = room.service.hold("send")
        room.play(BEGIN, _asked())
        await slow.reached.wait()
        room.play(ApprovalSettled("ap_1", "deny"))
        assert slow.gate
        slow.gate.set()
        (only,) = await room.ends()
        assert only.text.startswith("🚫 Denied")
        assert only.buttons == ()


async def test_a_doubtful_approval_is_marked() -> None:
    """It may be visible twice; one answer counts."""
    service = ChatService()
    service.fail("send", Unreachable(maybe_done=True), executed=True)
    async with chat_room(service) as room:
        room.play(BEGIN, _asked())
        again = await room.sees(POSSIBLY_TWICE)
        assert "May I run" in again.text


async def test_a_stopped_turn_settles_its_approval() -> None:
    """The answer is no longer needed."""
    async with chat_room() as room:
        room.play(BEGIN, _asked())
        question = await room.sees("May I run")
        room.play(TurnDone("", stopped=True))
        await room.ends()
        assert question.text.startswith("⌛ Not answered")
        assert question.buttons == ()


async def test_a_refused_approval_is_reported() -> None:
    """The person learns why the tool does not run."""
    service = ChatService()
    service.fail("send", ContentRefused())
    async with chat_room(service) as room:
        room.play(BEGIN, _asked())
        await room.sees("did not take my question")


async def test_a_deleted_approval_is_ignored() -> None:
    """A person deleted the message meanwhile."""
    async with chat_room() as room:
        room.play(BEGIN, _asked())
        await room.sees("May I run")
        room.service.fail("edit", MessageGone())
        room.play(ApprovalSettled("ap_1", "once"), TurnDone("Done."))
        assert (await room.ends())[-1].text == "Done."


async def test_a_long_command_is_truncated_and_attached() -> None:
    """The message says how many characters are missing."""
    command = "\n".join(f"echo line {number}" for number in range(100))
    async with chat_room() as room:
        room.play(BEGIN, _asked(command))
        question = await room.sees("May I run")
        await room.service.until(lambda: len(room.service.messages) == 2)
        shown = question.text.split("```")[1].strip()
        assert command.startswith(shown)
        assert f"✂ {len(command) - len(shown):,} more characters" in question.text
        file = room.service.messages[1]
        assert (file.name, file.data) == ("command.txt", command.encode())


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("echo \u202egnp.exe", "echo \\u202egnp.exe"),
        ("ls\u200b -la", "ls\\u200b -la"),
        ("a\x1b[2Kb", "a\\x1b[2Kb"),
        ("plain\n\tüñí 🎉", "plain\n\tüñí 🎉"),
    ],
)
def test_confusables_are_escaped(command: str, shown: str) -> None:
    """People approve what they see."""
    assert escape_hidden(command) == shown
    assert format_arguments(json.dumps({"command": command})) == shown


def test_several_arguments_are_all_shown() -> None:
    """Each argument has its name and its own line."""
    shown = format_arguments('{"path": "/etc/hosts", "text": "a\\nb"}')
    assert json.loads(shown) == {"path": "/etc/hosts", "text": "a\nb"}
    assert len(shown.split("\n")) == 4


@pytest.mark.parametrize("code", ["ls", "a\n```\n**not code**", "`````", "~~~"])
def test_code_cannot_leave_its_block(code: str) -> None:
    """The fence is longer than any fence in the code."""
    opening, *body, closing = code_block(code).split("\n")
    assert opening == closing
    assert "\n".join(body) == code
    assert all(opening not in line for line in body)


def test_one_line() -> None:
    """A long text is truncated and has no line breaks."""
    assert one_line("a\n  b\tc", 10) == "a b c"
    assert one_line("abcdefghij", 5) == "abcd…"


# -- files ---------------------------------------------------------------------------------------------------


async def test_a_file_is_sent_with_its_caption(tmp_path: Path) -> None:
    """It comes after the text that came before it."""
    path = tmp_path / "report.csv"
    path.write_bytes(b"a,b\n")
    async with chat_room() as room:
        room.play(BEGIN, TextDelta("Here:"), ToolStarted("c1", "send_file", "{}"), _file(path, "The report"))
        room.play(ToolFinished("c1", "send_file", True, "", 0.0), TurnDone("There you are."))
        before, file, after = await room.ends()
        assert (file.name, file.data, file.text) == ("report.csv", b"a,b\n", "The report")
        assert (before.text, after.text) == ("Here:", "There you are.")


async def test_a_long_caption_follows_as_text(tmp_path: Path) -> None:
    """Services truncate captions; nothing is lost."""
    path = tmp_path / "report.csv"
    path.write_bytes(b"a")
    caption = "long words " * 200
    async with chat_room() as room:
        room.play(BEGIN, _file(path, caption), TurnDone(""))
        file, *texts = await room.ends()
        assert (file.name, file.text) == ("report.csv", "")
        assert reads_as(texts, caption)


async def test_a_file_that_cannot_be_sent_is_reported(tmp_path: Path) -> None:
    """The file is too large, missing or replaced by a link: the notice says which."""
    large, link = tmp_path / "large.bin", tmp_path / "link.txt"
    large.write_bytes(b"x" * 101)
    link.symlink_to(large)
    async with chat_room(ChatService(file_limit=100)) as room:
        room.play(BEGIN, _file(large), _file(tmp_path / "gone.txt"), _file(link), TurnDone("That is all."))
        texts = [message.text for message in await room.ends()]
        assert texts[0] == (
            "⚠ `large.bin`: This file cannot be sent: it has 101 bytes, and the chat service takes 100 at most."
        )
        assert texts[1].startswith("⚠ `gone.txt`: This file cannot be sent: `gone.txt` does not exist.")
        assert texts[2].startswith("⚠ `link.txt`: This file cannot be sent:")
        assert texts[3] == "That is all."
        assert room.service.calls_of("send_file") == []


async def test_a_doubtful_file_is_marked(tmp_path: Path) -> None:
    """It is sent again and may be visible twice."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"a")
    service = ChatService()
    service.fail("send_file", Unreachable(maybe_done=True), executed=True)
    async with chat_room(service) as room:
        room.play(BEGIN, _file(path, "A"), TurnDone(""))
        first, second = await room.ends()
        assert first.is_ghost
        assert second.text == f"A\n{POSSIBLY_TWICE}"


@pytest.mark.parametrize("maybe_done", [True, False])
async def test_a_file_times_out(tmp_path: Path, maybe_done: bool) -> None:
    """After the time-out, or after several doubtful uploads, the file is abandoned; the answer still comes."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"a")
    service = ChatService()
    service.fail("send_file", Unreachable(maybe_done=maybe_done), permanent=True)
    async with chat_room(
        service, timing=replace(FAST, best_effort_timeout=60.0 if maybe_done else 0.03)
    ) as room:
        room.play(BEGIN, _file(path), TurnDone("Done."))
        sorry, answer = await room.ends()
        assert sorry.text.startswith("⚠ `a.txt`: The chat service could not be reached")
        assert answer.text == "Done."
        tries = service.calls_of("send_file")
        assert len(tries) == FAST.max_uploads if maybe_done else tries[-1].at - tries[0].at >= 0.03


async def test_where_files_are_forbidden_the_text_is_shown(tmp_path: Path) -> None:
    """In a group that allows only text the person gets a notice, and the answer still comes."""
    path = tmp_path / "__init__.py"
    path.write_bytes(b"a")
    service = ChatService()
    service.fail("send_file", Undeliverable("(no right to send documents)"), permanent=True)
    async with chat_room(service) as room:
        room.play(BEGIN, _file(path), TurnDone("Done."))
        sorry, answer = await room.ends()
        assert sorry.text == "⚠ `__init__.py`: I may not send files here. (no right to send documents)"
        assert (sorry.formatted, answer.text) == (True, "Done.")
        assert len(service.calls_of("send_file")) == 1


async def test_a_message_that_cannot_be_deleted_does_not_end_the_turn() -> None:
    """Only a text that cannot be delivered ends the turn."""
    async with chat_room() as room:
        room.play(BEGIN, Queued("m2", "?", "queue", 1))
        await room.sees("⏳")
        room.service.fail("delete", Undeliverable())
        room.play(Steered("m2", "?"))
        await room.service.until(lambda: len(room.service.calls_of("delete")) == 1)
        room.play(TurnDone("Done."))
        assert (await room.ends())[-1].text == "Done."


async def test_long_code_is_also_a_file() -> None:
    """Code that is split over messages cannot be copied; a file can."""
    code = "\n".join(f"value_{number} = {number}" for number in range(80))
    text = f"Look:\n\n```python\n{code}\n```\n\nAnd short:\n\n```sh\nls\n```"
    async with chat_room() as room:
        room.answer(text)
        *messages, file = await room.ends()
        assert reads_as(messages, text)
        assert file.name.endswith(".py")
        assert file.data is not None
        assert file.data.decode().strip() == code
