"""Turns as they are told: how many, how long, how long until the first word, and what tools they called."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agent.events import (
    Steered,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnEvent,
    TurnFailed,
)
from gateway.commands import is_command
from gateway.observability.definitions import OTHER, Bounded, Meters
from gateway.observability.tracing import Span, Tracing
from gateway.types import InboundMessage


@dataclass(slots=True)
class _Turn:
    began: float
    span: Span
    has_spoken: bool = False
    outcome: str = ""
    tools: dict[str, Span] = field(default_factory=dict)
    """Calls under way, by their ids."""


class TurnMeter:
    def __init__(self, meters: Meters, tracing: Tracing, is_closing: Callable[[], bool]) -> None:
        self._meters = meters
        self._tracing = tracing
        self._is_closing = is_closing
        self._waiting: dict[str, float] = {}
        self._turns: dict[str, _Turn] = {}
        self._bounded = Bounded()
        self._tools: set[str] = set()

    @property
    def active(self) -> int:
        return len(self._turns)

    def know_tools(self, names: Iterable[str]) -> None:
        """Models call tools that do not exist, by any name; those are `other`."""
        self._tools.update(map(self._bounded, names))

    def _tool(self, name: str, *, exists: bool = False) -> str:
        if exists:  # as those of a context engine, which nobody knows before
            self.know_tools([name])
        return name if name in self._tools else OTHER

    def waits(self, message_id: str) -> None:
        self._waiting[message_id] = time.perf_counter()

    @contextmanager
    def turn(self, conversation_id: str, inbound: InboundMessage) -> Iterator[None]:
        platform = inbound.address.platform
        self._no_longer_waits(inbound.id, platform)
        ids = {"hermes.conversation": conversation_id, "hermes.turn": inbound.id, "hermes.platform": platform}
        turn = _Turn(time.perf_counter(), self._tracing.begin_turn(inbound.id, ids))
        self._turns[inbound.id] = turn
        active = self._meters.turns_active.labels(platform)
        active.inc()
        try:
            with turn.span.under_way():
                yield
        finally:
            active.dec()
            del self._turns[inbound.id]
            for span in turn.tools.values():
                span.end("stopped")
            # Without any outcome it was nobody's turn: its author may not speak any more.
            turn.span.end(turn.outcome or "refused", failed=turn.outcome == "failed")

    def told(self, inbound: InboundMessage, event: TurnEvent) -> None:
        turn, platform = self._turns.get(inbound.id), inbound.address.platform
        match event:
            case TextDelta():
                if turn and not turn.has_spoken:
                    turn.has_spoken = True
                    took = time.perf_counter() - turn.began
                    self._meters.first_token_seconds.labels(platform).observe(took)
            case Steered():
                self._no_longer_waits(event.message_id, platform)
            case ToolStarted() if turn:
                facts = {"gen_ai.tool.name": self._tool(event.name)}
                turn.tools[event.call_id] = self._tracing.begin("tool call", facts)
            case ToolFinished():
                self._tool_finished(turn, event)
            case TurnDone() | TurnFailed():
                self._over(turn, inbound, self._outcome(inbound, event))

    def _outcome(self, inbound: InboundMessage, event: TurnDone | TurnFailed) -> str:
        if isinstance(event, TurnFailed):
            # What is cut by a stop of Hermes is told without a note that it failed: it goes on at the next start.
            return "interrupted" if self._is_closing() and not event.outbox_id else "failed"
        if event.stopped:
            return "stopped"
        return "command" if is_command(inbound.text) else "answered"

    def _over(self, turn: _Turn | None, inbound: InboundMessage, outcome: str) -> None:
        platform = inbound.address.platform
        self._meters.turns.labels(platform, outcome).inc()
        if turn is None:
            return
        turn.outcome = outcome
        if outcome != "command":
            self._meters.turn_seconds.labels(platform).observe(time.perf_counter() - turn.began)

    def _tool_finished(self, turn: _Turn | None, event: ToolFinished) -> None:
        tool, outcome = self._tool(event.name, exists=event.ok), "ok" if event.ok else "failed"
        self._meters.tool_calls.labels(tool, outcome).inc()
        self._meters.tool_seconds.labels(tool).observe(event.seconds)
        if turn and (span := turn.tools.pop(event.call_id, None)):
            span.end(outcome, failed=not event.ok)

    def _no_longer_waits(self, message_id: str, platform: str) -> None:
        if (since := self._waiting.pop(message_id, None)) is not None:
            self._meters.wait_seconds.labels(platform).observe(time.perf_counter() - since)
