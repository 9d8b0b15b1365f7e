"""Metrics and traces of one gateway, read by `/metrics` and by the dashboard."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Histogram

from agent.context.compaction import Attempt
from agent.events import Steered, TextDelta, ToolFinished, ToolStarted, TurnDone, TurnEvent, TurnFailed
from agent.llm import Usage
from agent.llm.guards import Call
from gateway.core.events import Observer
from gateway.observability.definitions import OTHER, BoundedLabel, Meters
from gateway.observability.tracing import Span, Tracing
from gateway.types import InboundMessage

if TYPE_CHECKING:
    from gateway.core.gateway import Gateway
    from gateway.models.transcription import SpeechToText, Transcript

_LAG_INTERVAL_SECONDS = 0.5
_LAG_SAMPLES = 120
"""The samples of the last minute."""
_KIND = re.compile(r"(library:)?[\w.-]{1,60}")
"""A plugin may log whole sentences, which are not usable as a label."""
_CLASS_NAME = re.compile(r"[A-Z][A-Za-z]{0,60}")


@dataclass(frozen=True, slots=True)
class WarningCount:
    """Number of warnings or errors of one kind since the start."""

    kind: str
    """The name of the log event, such as `turn.failed`; `library:NAME` for the warnings of a library."""
    error: str
    """The exception class if the event names one, such as `RateLimited`."""
    count: int
    last_at: float
    """Unix time."""


@dataclass(slots=True)
class _Turn:
    began: float
    span: Span
    has_text: bool = False
    outcome: str = ""
    tools: dict[str, Span] = field(default_factory=dict)
    """Running tool calls by id."""


class Metrics(Observer):
    """The observer of the gateway, and the context managers that count model calls and compactions."""

    def __init__(self, tracing: Tracing | None = None) -> None:
        self.registry = CollectorRegistry()
        self.tracing = tracing or Tracing()
        self.meters = Meters(self.registry)
        self.lag = EventLoopLag(self.meters.event_loop_lag)
        self._gateway: Gateway | None = None
        self._queued_at: dict[str, float] = {}
        self._turns: dict[str, _Turn] = {}
        self._tools: set[str] = set()
        self._warnings: dict[tuple[str, str], WarningCount] = {}
        self._writing = threading.Lock()
        self._kind, self._error, self._outcome, self._tool = (BoundedLabel() for _ in range(4))
        self._result = BoundedLabel(8)

    def attach(self, gateway: Gateway) -> None:
        """Set the gateway whose turns are counted."""
        self._gateway = gateway

    def register_tools(self, names: Iterable[str]) -> None:
        """Allow these names as labels: a model may call a tool that does not exist by any name. Other tools count as
        `other` until one of their calls succeeds."""
        self._tools.update(map(self._tool, names))

    @property
    def warnings(self) -> list[WarningCount]:
        """Warnings and errors since the start, newest first."""
        return sorted(self._warnings.copy().values(), key=lambda each: each.last_at, reverse=True)

    def count_warning(self, kind: str, error: object) -> None:
        """Count a warning or an error of the log. Thread-safe."""
        name = error if isinstance(error, str) and _CLASS_NAME.fullmatch(error) else ""
        kind = self._kind(kind) if _KIND.fullmatch(kind) else OTHER
        key = kind, name = kind, self._error(name)
        self.meters.errors.labels(*key).inc()
        with self._writing:
            known = self._warnings.get(key) or WarningCount(kind, name, 0, 0.0)
            self._warnings[key] = replace(known, count=known.count + 1, last_at=time.time())

    # -- models ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def model_guard(self, call: Call) -> AsyncIterator[None]:
        """Count and trace a call of a model, failed ones too."""
        with self.model_call(call.model, call.request.purpose) as complete:
            try:
                yield
            finally:
                if call.completion is not None:
                    complete(call.completion.usage)

    def observe_transcriber(self, transcribe: SpeechToText) -> SpeechToText:
        return _ObservedTranscriber(transcribe, self)

    @contextmanager
    def model_call(self, model: str, purpose: str) -> Iterator[Callable[[Usage], None]]:
        """Count and trace one call. The caller passes the usage of a complete answer to the yielded function.

        The span is not made the current one: a stream may be read in another context."""
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": model,
            "hermes.purpose": purpose,
        }
        span, began = self.tracing.start_span("model call", attributes), time.perf_counter()
        outcome = ""

        def complete(usage: Usage) -> None:
            nonlocal outcome
            # A reader that has the complete answer may close the stream before its end.
            outcome = "ok"
            self.meters.count_usage(model, purpose, usage)
            span.set_attributes(
                {
                    "gen_ai.usage.input_tokens": usage.prompt_tokens,
                    "gen_ai.usage.output_tokens": usage.completion_tokens,
                    "hermes.cached_tokens": usage.cache_read_tokens,
                }
            )

        try:
            yield complete
            outcome = "ok"
        finally:
            error = sys.exception()
            # A cancel and a closed stream count as `stopped`.
            outcome = outcome or (type(error).__name__ if isinstance(error, Exception) else "stopped")
            self.meters.count_call(model, purpose, outcome, time.perf_counter() - began)
            span.end(outcome, failed=outcome not in ("ok", "stopped"))

    @contextmanager
    def compaction(self, attempt: Attempt) -> Iterator[None]:
        span = self.tracing.start_span("compaction", {"hermes.trigger": attempt.trigger})
        try:
            with span.active():
                yield
        finally:
            result = self._result(attempt.result)
            self.meters.compactions.labels(attempt.trigger, result).inc()
            self.meters.compaction_seconds.labels(attempt.trigger).observe(attempt.seconds)
            span.set_attributes({"hermes.engine_seconds": attempt.seconds})
            span.end(result, failed=result == "failed")

    # -- gateway.core.events.Observer ---------------------------------------------------------------------------

    def queued(self, message_id: str) -> None:
        self._queued_at[message_id] = time.perf_counter()

    @contextmanager
    def turn(self, conversation_id: str, inbound: InboundMessage) -> Iterator[None]:
        platform = inbound.address.platform
        self._observe_wait(inbound.id, platform)
        ids = {"hermes.conversation": conversation_id, "hermes.turn": inbound.id, "hermes.platform": platform}
        turn = _Turn(time.perf_counter(), self.tracing.start_turn(inbound.id, ids))
        self._turns[inbound.id] = turn
        active = self.meters.turns_active.labels(platform)
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
                    self.meters.first_token_seconds.labels(platform).observe(seconds)
            case Steered():
                self._observe_wait(event.message_id, platform)
            case ToolStarted() if turn:
                attributes = {"gen_ai.tool.name": self._tool_label(event.name)}
                turn.tools[event.call_id] = self.tracing.start_span("tool call", attributes)
            case ToolFinished():
                self._count_tool_call(turn, event)
            case TurnDone() | TurnFailed():
                self._count_turn(turn, inbound, self._turn_outcome(inbound, event))

    def _turn_outcome(self, inbound: InboundMessage, event: TurnDone | TurnFailed) -> str:
        if isinstance(event, TurnFailed):
            # A turn that a stop of the gateway interrupts has no stored failure and continues at the next start.
            is_closing = self._gateway is not None and self._gateway.is_closing
            return "interrupted" if is_closing and not event.outbox_id else "failed"
        if event.stopped:
            return "stopped"
        return "command" if inbound.command else "answered"

    def _count_turn(self, turn: _Turn | None, inbound: InboundMessage, outcome: str) -> None:
        platform = inbound.address.platform
        self.meters.turns.labels(platform, outcome).inc()
        if turn is None:
            return
        turn.outcome = outcome
        if outcome != "command":
            self.meters.turn_seconds.labels(platform).observe(time.perf_counter() - turn.began)

    def _count_tool_call(self, turn: _Turn | None, event: ToolFinished) -> None:
        tool, outcome = self._tool_label(event.name, exists=event.ok), "ok" if event.ok else "failed"
        self.meters.tool_calls.labels(tool, outcome).inc()
        self.meters.tool_seconds.labels(tool).observe(event.seconds)
        if turn and (span := turn.tools.pop(event.call_id, None)):
            span.end(outcome, failed=not event.ok)

    def _observe_wait(self, message_id: str, platform: str) -> None:
        if (queued_at := self._queued_at.pop(message_id, None)) is not None:
            self.meters.wait_seconds.labels(platform).observe(time.perf_counter() - queued_at)

    def _tool_label(self, name: str, *, exists: bool = False) -> str:
        if exists:  # such as a tool of a context engine, which is not registered at the start
            self.register_tools([name])
        return name if name in self._tools else OTHER

    @contextmanager
    def call(self, platform: str, name: str, turn_id: str) -> Iterator[None]:
        attributes = {"hermes.platform": platform, "hermes.call": name}
        span = self.tracing.start_span("delivery", attributes, turn_id=turn_id)
        began, outcome = time.perf_counter(), ""
        try:
            yield
            outcome = "ok"
        finally:
            outcome = outcome or self._outcome(type(sys.exception()).__name__)
            self.meters.platform_calls.labels(platform, name, outcome).inc()
            self.meters.platform_call_seconds.labels(platform).observe(time.perf_counter() - began)
            span.end(outcome, failed=outcome != "ok")

    def delivered(self, platform: str, outcome: str) -> None:
        self.meters.deliveries.labels(platform, outcome).inc()


class _ObservedTranscriber:
    def __init__(self, transcribe: SpeechToText, metrics: Metrics) -> None:
        self._transcribe = transcribe
        self._metrics = metrics

    @property
    def model(self) -> str:
        return self._transcribe.model

    async def __call__(self, name: str, data: bytes) -> Transcript:
        with self._metrics.model_call(self.model, "transcription") as complete:
            transcript = await self._transcribe(name, data)
            complete(transcript.usage)
            return transcript


class EventLoopLag:
    """Measures how late the event loop runs its callbacks: blocking code delays everything."""

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram
        self._recent: deque[float] = deque(maxlen=_LAG_SAMPLES)

    @property
    def worst(self) -> float:
        """The worst lag of the last minute."""
        return max(self._recent, default=0.0)

    async def measure(self) -> None:
        """Measure until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + _LAG_INTERVAL_SECONDS
            await asyncio.sleep(_LAG_INTERVAL_SECONDS)
            late = max(0.0, clock() - due)
            self._recent.append(late)
            self._histogram.observe(late)
