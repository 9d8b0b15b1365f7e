"""`hermes chat -q`: one question, its answer on standard output, everything else on standard error."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing

import click

from agent.errors import HermesError
from agent.events import (
    ApprovalAsked,
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
from gateway.cli.chat_backend import ChatBackend, Sent
from gateway.cli.chat_text import describe_file
from gateway.cli.output import describe_call, one_line, printable
from gateway.types import parse_command

_NOBODY_TO_ASK = (
    "denied: {call}. Nobody can be asked here; decide in `hermes chat` without -q, or allow everything "
    "with `tools.approval: off`."
)


class Unanswered(HermesError):
    # Without a docstring: the turn brings its own sentence.
    pass


class AnswerStopped(HermesError):
    """The answer was stopped before its end."""


async def ask(backend: ChatBackend, text: str, *, new_session: bool = False) -> None:
    """Returns when the answer is complete. Raises Unanswered or AnswerStopped."""
    if new_session:
        await backend.send("/reset")
    sent = await backend.send(text)
    printed = _Printed(notices_are_answers=parse_command(text) is not None)
    turn_is_ours = False
    try:
        async with aclosing(_events_of(sent, backend)) as events:
            async for event in events:
                if isinstance(event, Queued) and new_session:
                    continue  # behind its own reset, mostly
                printed.show(event)
                # Into a turn that was begun elsewhere the question was only taken in; there somebody decides.
                turn_is_ours |= isinstance(event, TurnStarted)
                if isinstance(event, ApprovalAsked) and turn_is_ours:
                    printed.remark(_NOBODY_TO_ASK.format(call=describe_call(event.tool, event.arguments)))
                    await backend.decide(event.approval_id, "deny")
    except (asyncio.CancelledError, BrokenPipeError):
        # Nobody reads on, so a gateway that goes on running need not go on writing.
        await backend.stop()
        raise
    printed.end_line()


async def _events_of(sent: Sent, backend: ChatBackend) -> AsyncGenerator[TurnEvent, None]:
    """One message's own turn, or the rest of the running one that took it in."""
    ours = False
    async with aclosing(backend.events()) as events:
        async for event in events:
            if isinstance(event, TurnStarted | Steered) and event.message_id == sent.message_id:
                ours = True
            waits = isinstance(event, Queued) and event.message_id == sent.message_id
            if ours or waits or (sent.overtook and isinstance(event, Notice)):
                yield event
                if sent.overtook or isinstance(event, TurnDone | TurnFailed):
                    return


class _Printed:
    """The answer as it has been printed so far."""

    def __init__(self, *, notices_are_answers: bool) -> None:
        self._notices_are_answers = notices_are_answers
        self._at_line_start = True
        self._calls: dict[str, str] = {}

    def show(self, event: TurnEvent) -> None:
        match event:
            case TextDelta():
                self._write(event.text)
            case ToolStarted():
                self._calls[event.call_id] = describe_call(event.name, event.arguments)
            case ToolFinished():
                call = self._calls.get(event.call_id, event.name)
                outcome = "ok" if event.ok else f"failed: {one_line(event.result, 80)}"
                self.remark(f"{call} · {event.seconds:.1f} s · {outcome}")
            case Notice() if self._notices_are_answers:
                self._write(event.text)
            case Notice():
                self.remark(event.text)
            case Queued():
                self.remark("This chat is busy; the question waits.")
            case FileSent():
                self.remark(describe_file(event))
            case TurnFailed():
                self.end_line()
                raise Unanswered(event.error)
            case TurnDone() if event.stopped:
                self.end_line()
                raise AnswerStopped

    def end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n")

    def _write(self, text: str) -> None:
        # A pipe gets the exact text; a terminal must not be steered by it.
        sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
        sys.stdout.flush()
        self._at_line_start = text.endswith("\n")

    def remark(self, text: str) -> None:
        self.end_line()
        click.secho(printable(text), dim=True, err=True)
