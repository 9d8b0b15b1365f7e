"""Counts and traces turns: number, duration, time to the first text, and tool calls."""

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
from gateway.observability.definitions import OTHER, BoundedLabel, Meters
from gateway.observability.tracing import Span, Tracing
from gateway.types import InboundMessage


@dataclass(slots=True)
class _Turn:
    began: float
    span: Span
    has_text: bool = False
    outcome: str = ""
    tools: dict[str, Span] = field(default_factory=dict)
    """Running tool calls by id."""


class TurnMetrics:
    """Derives metrics and spans from the events of turns."""

    def __init__(self, meters: Meters, tracing: Tracing, is_closing: Callable[[], bool]) -> None:
        self._meters = meters
        self._tracing = tracing
        self._is_closing = is_closing
        self._queued_at: dict[str, float] = {}
        self._turns: dict[str, _Turn] = {}
        self._bounded = BoundedLabel()
        self._tools: set[str] = set()

    @property
    def active(self) -> int:
        return len(self._turns)

    def register_tools(self, names: Iterable[str]) -> None:
        """Allow these names as labels: a model may call a tool that does not exist by any name."""
        self._tools.update(map(self._bounded, names))

    def _tool_label(self, name: str, *, exists: bool = False) -> str:
        if exists:  # such as a tool of a context engine, which is not registered at the start
            self.register_tools([name])
        return name if name in self._tools else OTHER

    def queued(self, message_id: str) -> None:
        self._queued_at[message_id] = time.perf_counter()

    @contextmanager
    def turn(self, conversation_id: str, inbound: InboundMessage) -> Iterator[None]:
        platform = inbound.address.platform
        self._observe_wait(inbound.id, platform)
        ids = {"hermes.conversation": conversation_id, "hermes.turn": inbound.id, "hermes.platform": platform}
        turn = _Turn(time.perf_counter(), self._tracing.start_turn(inbound.id, ids))
        self._turns[inbound.id] = turn
        active = self._meters.turns_active.labels(platform)
        active.inc()
        try:
            with turn.span.active():
                yield
        finally:
            active.dec()
            del self._turns[inbound.id]
            for span in turn.tools.values():
                span.end("stopped")
            # A turn without an outcome was refused: its author may no longer talk to the bot.
            turn.span.end(turn.outcome or "refused", failed=turn.outcome == "failed")

    def event(self, inbound: InboundMessage, event: TurnEvent) -> None:
        turn, platform = self._turns.get(inbound.id), inbound.address.platform
        match event:
            case TextDelta():
                if turn and not turn.has_text:
                    turn.has_text = True
                    seconds = time.perf_counter() - turn.began
                    self._meters.first_token_seconds.labels(platform).observe(seconds)
            case Steered():
                self._observe_wait(event.message_id, platform)
            case ToolStarted() if turn:
                attributes = {"gen_ai.tool.name": self._tool_label(event.name)}
                turn.tools[event.call_id] = self._tracing.start_span("tool call", attributes)
            case ToolFinished():
                self._count_tool_call(turn, event)
            case TurnDone() | TurnFailed():
                self._count_turn(turn, inbound, self._outcome(inbound, event))

    def _outcome(self, inbound: InboundMessage, event: TurnDone | TurnFailed) -> str:
        if isinstance(event, TurnFailed):
            # A turn that a stop of the gateway interrupts has no stored failure and continues at the next start.
            return "interrupted" if self._is_closing() and not event.outbox_id else "failed"
        if event.stopped:
            return "stopped"
        return "command" if inbound.command else "answered"

    def _count_turn(self, turn: _Turn | None, inbound: InboundMessage, outcome: str) -> None:
        platform = inbound.address.platform
        self._meters.turns.labels(platform, outcome).inc()
        if turn is None:
            return
        turn.outcome = outcome
        if outcome != "command":
            self._meters.turn_seconds.labels(platform).observe(time.perf_counter() - turn.began)

    def _count_tool_call(self, turn: _Turn | None, event: ToolFinished) -> None:
        tool, outcome = self._tool_label(event.name, exists=event.ok), "ok" if event.ok else "failed"
        self._meters.tool_calls.labels(tool, outcome).inc()
        self._meters.tool_seconds.labels(tool).observe(event.seconds)
        if turn and (span := turn.tools.pop(event.call_id, None)):
            span.end(outcome, failed=not event.ok)

    def _observe_wait(self, message_id: str, platform: str) -> None:
        if (queued_at := self._queued_at.pop(message_id, None)) is not None:
            self._meters.wait_seconds.labels(platform).observe(time.perf_counter() - queued_at)
