"""`hermes chat -q`: prints the answer to one question on standard output and all else on standard error."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

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
from gateway.cli.chat_backend import Sent
from gateway.cli.output import describe_call, describe_file, one_line, printable
from gateway.types import parse_command

if TYPE_CHECKING:
    from gateway.cli.gateway_client import ChatBackend

_DENIED = (
    "denied: {call}. `hermes chat -q` cannot ask you; use `hermes chat` without -q, or allow everything "
    "with `tools.approval: off`."
)


class Unanswered(HermesError):
    # No docstring: the turn has its own sentence.
    pass


class AnswerStopped(HermesError):
    """The answer was stopped before it was complete."""


async def ask(backend: ChatBackend, text: str, *, new_session: bool = False) -> None:
    """Print the answer to a question. Raises Unanswered or AnswerStopped."""
    if new_session:
        await backend.send("/reset")
    sent = await backend.send(text)
    printer = _AnswerPrinter(notices_are_answers=parse_command(text) is not None)
    turn_is_ours = False
    try:
        async with aclosing(_events_of(sent, backend)) as events:
            async for event in events:
                if isinstance(event, Queued) and new_session:
                    continue  # it waits for its own /reset
                printer.show(event)
                # If a turn of another window took the question in, the approvals are decided there.
                turn_is_ours |= isinstance(event, TurnStarted)
                if isinstance(event, ApprovalAsked) and turn_is_ours:
                    printer.remark(_DENIED.format(call=describe_call(event.tool, event.arguments)))
                    await backend.decide(event.approval_id, "deny")
    except (asyncio.CancelledError, BrokenPipeError):
        # The reader is gone, so a gateway that keeps running can stop the answer.
        await backend.stop()
        raise
    printer.end_line()


async def _events_of(sent: Sent, backend: ChatBackend) -> AsyncGenerator[TurnEvent, None]:
    """Yield the events of the message's own turn, or the rest of the running turn that took it in."""
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


class _AnswerPrinter:
    """Prints an answer while it arrives."""

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
                self.remark("This chat is busy; your question is queued.")
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
        # A pipe gets the exact text; control characters must not reach a terminal.
        sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
        sys.stdout.flush()
        self._at_line_start = text.endswith("\n")

    def remark(self, text: str) -> None:
        self.end_line()
        click.secho(printable(text), dim=True, err=True)
