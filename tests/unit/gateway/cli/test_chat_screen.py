"""A turn on the screen: the permanent lines, and the changing lines below them."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType

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
    TurnFailed,
    TurnStarted,
)
from gateway.cli.chat_screen import ChatScreen


class Sheet:
    """A screen whose printed part can be read."""

    def __init__(self) -> None:
        self._out = io.StringIO()
        self._console = Console(file=self._out, width=60, color_system=None)
        self.mine = {"Hi"}
        self.screen = ChatScreen(self._console, self._print, lambda text: text in self.mine)

    def _print(self, *renderables: RenderableType) -> None:
        for renderable in renderables:
            self._console.print(renderable)

    @property
    def printed(self) -> str:
        return self._out.getvalue()

    def show(self, *events: object) -> None:
        for event in events:
            self.screen.show(event)  # type: ignore[arg-type]


@pytest.fixture
def sheet() -> Sheet:
    return Sheet()


STARTED = TurnStarted("msg_1", "Hi")


def test_an_answer_is_printed_block_by_block(sheet: Sheet) -> None:
    """A finished paragraph is printed, the one being written is only drawn, and the end prints it too."""
    sheet.screen.prompted()
    sheet.show(STARTED, TextDelta("First.\n\nSec"), TextDelta("ond.\nTh"))
    assert sheet.printed == "\nFirst.\n"
    drawn = sheet.screen.live(60, 20).split("\n")
    assert drawn[:3] == ["", "Second.", "Th"]
    assert drawn[3].endswith("0 s · Ctrl-C stops\x1b[0m")
    sheet.show(TextDelta("ird."), TurnDone("..."))
    assert sheet.printed == "\nFirst.\n\nSecond.\nThird.\n\n"
    assert sheet.screen.live(60, 20) == ""


def test_tools_are_one_line_each(sheet: Sheet) -> None:
    """What was called with what, how long it took, and why it failed."""
    sheet.show(
        STARTED,
        TextDelta("Let me look."),
        ToolStarted("a", "read_file", '{"path": "notes.txt"}'),
        ToolStarted("b", "terminal", '{"command": "ls", "timeout": 3}'),
    )
    drawn = sheet.screen.live(60, 20)
    assert "read_file notes.txt · 0 s" in drawn
    assert "terminal command=ls timeout=3 · 0 s · Ctrl-C stops" in drawn
    sheet.show(
        ToolFinished("b", "terminal", False, "exit code 2\nsays ls", 1.25),
        ToolFinished("a", "read_file", True, "text", 0.04),
        TextDelta("Here it is."),
        TurnDone("Here it is."),
    )
    assert sheet.printed.splitlines() == [
        "Let me look.",
        "",
        "✗ terminal command=ls timeout=3 · 1.2 s · failed: exit code…",
        "✓ read_file notes.txt · 0.0 s",
        "",
        "Here it is.",
        "",
    ]


def test_a_long_block_is_drawn_to_its_end(sheet: Sheet) -> None:
    """Only the newest lines fit the window; the printed block is whole."""
    code = "```\n" + "".join(f"line {number}\n" for number in range(100))
    sheet.show(STARTED, TextDelta(code))
    drawn = sheet.screen.live(60, 10).split("\n")
    assert len(drawn) == 10
    assert drawn[-2].strip() == "line 99"
    sheet.show(TextDelta("```\n"), TurnDone(""))
    assert [line.strip() for line in sheet.printed.split("\n")][:100] == [
        f"line {number}" for number in range(100)
    ]


def test_stopping_and_failing_are_said(sheet: Sheet) -> None:
    """The partial text stays; the reason appears below it."""
    sheet.show(STARTED, TextDelta("Once upon"), TurnDone("", stopped=True))
    sheet.show(STARTED, TextDelta("Once more"), TurnFailed("The model did not answer."))
    printed = [line for line in sheet.printed.splitlines() if line]
    assert printed == ["Once upon", "Stopped.", "Once more", "The model did not answer."]
    assert not sheet.screen.running


def test_the_answer_to_slash_stop_is_enough(sheet: Sheet) -> None:
    """`/stop` says "Stopped." itself; the end of the turn does not say it again."""
    sheet.show(STARTED, TextDelta("Once upon"), Notice("Stopped."), TurnDone("", stopped=True))
    assert sheet.printed.count("Stopped.") == 1


def test_notices_outside_a_turn(sheet: Sheet) -> None:
    """They are printed at once, with one empty line around them and no more."""
    sheet.show(Notice("One."), Notice("Two."))
    assert sheet.printed == "One.\n\nTwo.\n\n"


def test_a_notice_does_not_cut_a_paragraph(sheet: Sheet) -> None:
    """It waits for the end of the block that is being written, or of the answer."""
    sheet.show(STARTED, TextDelta("One "), Notice("Aside."), TextDelta("sentence.\n\nAnother"))
    assert sheet.printed == "One sentence.\n\nAside.\n"
    sheet.show(Notice("Later."), TextDelta(" one."), TurnDone(""))
    assert sheet.printed == "One sentence.\n\nAside.\n\nAnother one.\n\nLater.\n\n"


def test_messages_from_another_window_are_shown(sheet: Sheet) -> None:
    """Text typed here is on the screen already; text written elsewhere is not."""
    sheet.show(STARTED, TurnDone(""))
    assert "Hi" not in sheet.printed
    sheet.show(TurnStarted("msg_2", "From the browser"), TurnDone(""))
    assert "› From the browser" in sheet.printed


def test_what_happens_in_between_is_told(sheet: Sheet) -> None:
    """A message taken into the running turn, and a compaction."""
    sheet.show(STARTED, Steered("msg_2", "and in French"), Compacted("ses_2", 90, 12, 9_000, 900))
    assert "↳ read now: and in French" in sheet.printed
    assert "90 became 12" in sheet.printed.replace("\n", " ")


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("queue", "queued"),
        ("steer", "queued for the next step"),
        ("interrupt", "stops this answer"),
    ],
)
def test_a_message_that_waits_is_told(sheet: Sheet, how: str, told: str) -> None:
    """With what becomes of it; when its turn comes it is shown again, though it was typed here."""
    sheet.show(STARTED, Queued("msg_2", "Hi", how, 1))  # type: ignore[arg-type]
    assert f"↳ {told}: Hi\n" in sheet.printed
    sheet.show(TurnDone(""), TurnStarted("msg_2", "Hi"))
    assert sheet.printed.endswith("› Hi\n")


def test_questions_are_decided_in_order(sheet: Sheet) -> None:
    """The oldest comes first; a settled one makes room for the next, and the end of a turn for none."""
    first = ApprovalAsked("a", "terminal", '{"command": "ls\\nrm x"}', "owner", 0)
    second = ApprovalAsked("b", "terminal", '{"command": "\u202eid"}', "owner", 0)
    sheet.show(STARTED, first, second)
    assert "May Hermes run terminal?\n  ls\n  rm x\nMay Hermes run terminal?\n  \\u202eid\n" in sheet.printed
    assert sheet.screen.asked == first
    sheet.show(ApprovalSettled("a", "deny"))
    assert sheet.screen.asked == second
    assert sheet.printed.endswith("✗ denied\n")
    sheet.show(TurnDone("", stopped=True))
    assert sheet.screen.asked is None


def test_text_cannot_steer_the_terminal(sheet: Sheet) -> None:
    """Escape sequences in an answer, a tool's name or a sentence are shown and not obeyed."""
    evil = "\x1b]0;title\x07\x1b[2J\x9b31m"
    sheet.show(
        STARTED,
        TextDelta(f"Text {evil} {evil}"),
        ToolStarted("a", evil, evil),
        ToolFinished("a", evil, False, evil, 0),
        Notice(evil),
        Steered("msg_2", evil),
        Queued("msg_4", evil, "queue", 1),
        ApprovalAsked("x", evil, evil, "owner", 0),
        FileSent(evil, evil, evil, evil),
        TextDelta(evil),
    )
    drawn = sheet.screen.live(60, 20).replace("\x1b[2m", "").replace("\x1b[0m", "")
    sheet.show(TurnFailed(evil), TurnStarted("msg_3", evil))
    for forbidden in ("\x1b", "\x07", "\x9b"):
        assert forbidden not in sheet.printed + drawn
    assert "\\x1b" in sheet.printed
