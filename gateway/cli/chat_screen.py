"""Shows the events of a conversation in the terminal.

Finished parts (blocks of the answer, tool calls, notices) are printed once and scroll away. The live part (the block
being written, the clock) is drawn above the prompt, see `live()`, and leaves no trace.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import indent
from typing import Literal, Protocol

from rich.console import Console, RenderableType
from rich.text import Text

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
from agent.untrusted import without_marks
from gateway.cli.chat_markdown import Answer, split_finished
from gateway.cli.output import describe_call, describe_file, one_line, printable
from gateway.core.approvals import approval_parts

Kind = Literal["blank", "prompt", "answer", "tool", "question", "notice", "aside"]

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SPIN_SECONDS = 0.1
_SHOWN_TOOLS = 3

_QUEUED = {"queue": "queued", "steer": "queued for the next step", "interrupt": "stops this answer"}
_OUTCOMES = {
    "once": "✓ allowed once",
    "conversation": "✓ allowed in this conversation",
    "deny": "✗ denied",
    "expired": "✗ expired without an answer, not run",
}


class Print(Protocol):
    def __call__(self, *renderables: RenderableType) -> None: ...


@dataclass(frozen=True, slots=True)
class _Clock:
    """The running time of a tool or of the model."""

    label: str
    began: float

    def __str__(self) -> str:
        seconds = f"{time.monotonic() - self.began:.0f} s"
        return f"{self.label} · {seconds}" if self.label else seconds


class ChatScreen:
    """Shows the events of one conversation. `is_mine` says whether a message was entered in this window."""

    def __init__(self, console: Console, print_above: Print, is_mine: Callable[[str], bool]) -> None:
        self._console = console
        self._print_above = print_above
        self._is_mine = is_mine
        self._last: Kind = "blank"
        self._turn: _Clock | None = None
        self._tools: dict[str, _Clock] = {}
        self._asked: dict[str, ApprovalAsked] = {}
        self._queued: set[str] = set()
        """Ids of queued messages."""
        self._pending = ""
        self._held: list[str] = []
        """Notices that wait for the end of the current block."""
        self._drawn: tuple[tuple[str, int], list[str]] = (("", 0), [""])

    @property
    def running(self) -> bool:
        return self._turn is not None

    @property
    def asked(self) -> ApprovalAsked | None:
        """The oldest open approval."""
        return next(iter(self._asked.values()), None)

    def prompted(self) -> None:
        """Note that a line was entered above the next output."""
        self._last = "prompt"

    def show(self, event: TurnEvent) -> None:
        match event:
            case TurnStarted():
                self._start(event)
            case TextDelta():
                self._write(event.text)
            case ToolStarted():
                self.flush()
                what = describe_call(event.name, event.arguments)
                self._tools[event.call_id] = _Clock(what, time.monotonic())
            case ToolFinished():
                self._finish_tool(event)
            case Queued():
                self._queued.add(event.message_id)
                self._put("aside", Text(f"↳ {_QUEUED[event.how]}: {one_line(event.text, 60)}", "dim"))
            case Steered():
                self._is_mine(event.text)
                self._queued.discard(event.message_id)
                self._put("aside", Text(f"↳ read now: {one_line(event.text, 60)}", "dim"))
            case ApprovalAsked():
                self._asked[event.approval_id] = event
                self._put("question", Text(_question(event), "yellow"))
            case ApprovalSettled():
                self._asked.pop(event.approval_id, None)
                self._put("question", Text(_OUTCOMES[event.choice], "dim"))
            case FileSent():
                self._put("tool", Text(describe_file(event)))
            case Compacted():
                self.show_notice(
                    f"Hermes summarised older messages: {event.messages_before} became {event.messages_after}."
                )
            case Notice():
                self.show_notice(event.text)
            case TurnDone():
                self.flush()
                if event.stopped and self._last != "notice":  # after /stop, the notice says so already
                    self._put("aside", Text("Stopped.", "dim"))
                self._end()
            case TurnFailed():
                self._put("aside", Text(printable(event.error), "red"))
                self._end()

    def show_notice(self, sentence: str) -> None:
        """Print a sentence of Hermes, but not in the middle of a paragraph of the answer."""
        self._held.append(sentence)
        if not (self.running and self._pending.strip()):
            self.flush()
        if not self.running:
            self._end()

    def live(self, width: int, height: int) -> str:
        """Return the live part as ANSI text of this size; empty without a running turn."""
        if self._turn is None:
            return ""
        clocks = list(self._tools.values())[:_SHOWN_TOOLS] or [self._turn]
        tail = self._unfinished(width)[-max(1, height - len(clocks)) :]
        spin = _SPINNER[int(time.monotonic() / _SPIN_SECONDS) % len(_SPINNER)]
        status = [f"{spin} {clock}" for clock in clocks]
        status[-1] += " · Ctrl-C stops"
        return "\n".join([*tail, *(f"\x1b[2m{one_line(line, width - 1)}\x1b[0m" for line in status)])

    # -- one turn --------------------------------------------------------------------------------------------

    def _start(self, event: TurnStarted) -> None:
        self._forget_turn()
        self._turn = _Clock("", time.monotonic())
        # Repeat a message of another window, and a queued message, which scrolled away.
        if not self._is_mine(event.text) or event.message_id in self._queued:
            self._put("prompt", Text(f"› {printable(event.text)}", "dim"))
        self._queued.discard(event.message_id)

    def _write(self, text: str) -> None:
        self._pending += printable(text)
        if "\n" in text:
            finished, self._pending = split_finished(self._pending)
            self._put_answer(finished)
            if finished.strip():
                self._print_held()

    def _finish_tool(self, event: ToolFinished) -> None:
        running = self._tools.pop(event.call_id, None)
        label = running.label if running else describe_call(event.name, "")
        line = Text(f"{'✓' if event.ok else '✗'} {label} · {event.seconds:.1f} s", "dim")
        if not event.ok:
            line.append(f" · failed: {one_line(without_marks(event.result), 80)}", "red")
        line.truncate(self._console.width, overflow="ellipsis")
        self._put("tool", line)

    def _end(self) -> None:
        self._forget_turn()
        if self._last != "blank":
            self._last = "blank"
            self._print_above(Text())

    def _forget_turn(self) -> None:
        self._turn = None
        self._tools.clear()
        self._asked.clear()
        self._pending = ""

    # -- printing --------------------------------------------------------------------------------------------

    def _put(self, kind: Kind, renderable: RenderableType) -> None:
        self.flush()
        self._print(kind, renderable)

    def flush(self) -> None:
        """Print the live part."""
        rest, self._pending = self._pending, ""
        self._put_answer(rest)
        self._print_held()

    def _print_held(self) -> None:
        held, self._held = self._held, []
        for sentence in held:
            self._print("notice", Text(printable(sentence), "yellow"))

    def _put_answer(self, text: str) -> None:
        if text.strip():
            self._print("answer", Answer(text))

    def _print(self, kind: Kind, renderable: RenderableType) -> None:
        """Print with blank lines around paragraphs and between different kinds."""
        apart = self._last != "blank" and (kind == "answer" or kind != self._last)
        self._last = kind
        self._print_above(*([Text()] if apart else []), renderable)

    def _unfinished(self, width: int) -> list[str]:
        """Render the block being written; cached, because the prompt asks several times per frame."""
        wanted = (self._pending, width)
        if self._drawn[0] != wanted:
            with self._console.capture() as captured:
                self._console.print(Answer(self._pending), width=width)
            lines = captured.get().rstrip("\n").split("\n")
            self._drawn = (wanted, ["", *lines] if self._pending.strip() else [""])
        return self._drawn[1]


def _question(asked: ApprovalAsked) -> str:
    """Show all arguments with hidden characters made visible, so that people see what they approve."""
    parts = approval_parts(asked.arguments)
    # Indented twice, so that a line cannot look like the name of another argument.
    texts = [text if len(parts) == 1 else f"{name}\n{_indented(text)}" for name, text in parts]
    return "\n".join([f"May Hermes run {one_line(asked.tool, 40)}?", *map(_indented, texts)])


def _indented(text: str) -> str:
    return indent(text, "  ", lambda line: True)
