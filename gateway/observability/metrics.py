"""What is measured of one Hermes: fed by the gateway as things happen, read by `/metrics` and by the dashboard."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from agent.context.compaction import Attempt
from agent.events import TurnEvent
from agent.llm import LLMClient
from gateway.observability.definitions import OTHER, Bounded, Meters
from gateway.observability.event_loop_lag import EventLoopLag
from gateway.observability.llm_metrics import ObservedTranscriber, observed_llm
from gateway.observability.tracing import NoTracing, Tracing
from gateway.observability.turn_metrics import TurnMeter
from gateway.types import InboundMessage

if TYPE_CHECKING:
    from gateway.core.gateway import Gateway
    from gateway.models.transcription import Transcribes

_KIND = re.compile(r"(library:)?[\w.-]{1,60}")
"""A plugin may log whole sentences; those are no kind of error."""
_CLASS_NAME = re.compile(r"[A-Z][A-Za-z]{0,60}")


@dataclass(frozen=True, slots=True)
class Failure:
    """Warnings or errors of one kind since the start."""

    kind: str
    """The name of the log line: `turn.failed`. `library:` and its name for what a library complains of."""
    error: str
    """The class of what was raised, where the line names it: `RateLimited`."""
    count: int
    last_at: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How Hermes is at this moment."""

    started_at: float
    uptime_seconds: float
    active_turns: int
    queue_depth: int
    """Messages that wait for their turn."""
    failures: tuple[Failure, ...]
    """The newest first."""
    event_loop_lag: float
    """Seconds, as last measured; measured twice a second while Hermes serves."""
    worst_event_loop_lag: float
    """In the last minute."""


class Metrics:
    """The gateway's `Observer`, and whatever else there is to count with."""

    def __init__(self, tracing: Tracing | None = None) -> None:
        self.registry = CollectorRegistry()
        self.tracing = tracing or NoTracing()
        self.meters = Meters(self.registry)
        self.lag = EventLoopLag(self.meters.event_loop_lag)
        self._gateway: Gateway | None = None
        self._turns = TurnMeter(
            self.meters, self.tracing, lambda: bool(self._gateway and self._gateway.is_closing)
        )
        self._failures: dict[tuple[str, str], Failure] = {}
        self._writing = threading.Lock()
        self._kind, self._error, self._result, self._outcome = Bounded(), Bounded(), Bounded(8), Bounded()
        self._started_at, self._began = time.time(), time.monotonic()

    def follow(self, gateway: Gateway) -> None:
        """Whose queue it is that is measured."""
        self._gateway = gateway

    def know_tools(self, names: Iterable[str]) -> None:
        """Which tools there are; by any other name one counts as `other`, until it has worked."""
        self._turns.know_tools(names)

    def snapshot(self) -> Snapshot:
        """Costs nothing worth mentioning; asks nobody."""
        failures = sorted(self._failures.copy().values(), key=lambda each: each.last_at, reverse=True)
        return Snapshot(
            self._started_at,
            time.monotonic() - self._began,
            self._turns.active,
            self._gateway.waiting if self._gateway else 0,
            tuple(failures),
            self.lag.last,
            self.lag.worst,
        )

    def logged(self, kind: str, error: object) -> None:
        """A warning or an error was written to the log; from any thread."""
        name = error if isinstance(error, str) and _CLASS_NAME.fullmatch(error) else ""
        kind = self._kind(kind) if _KIND.fullmatch(kind) else OTHER
        key = kind, name = kind, self._error(name)
        self.meters.errors.labels(*key).inc()
        with self._writing:
            known = self._failures.get(key) or Failure(kind, name, 0, 0.0)
            self._failures[key] = replace(known, count=known.count + 1, last_at=time.time())

    # -- models ----------------------------------------------------------------------------------------------

    def observed(self, llm: LLMClient) -> LLMClient:
        return observed_llm(llm, self.meters, self.tracing)

    def observed_transcriber(self, transcribe: Transcribes) -> ObservedTranscriber:
        return ObservedTranscriber(transcribe, self.meters, self.tracing)

    @contextmanager
    def compaction(self, attempt: Attempt) -> Iterator[None]:
        span = self.tracing.begin("compaction", {"hermes.trigger": attempt.trigger})
        try:
            with span.under_way():
                yield
        finally:
            result = self._result(attempt.result)
            self.meters.compactions.labels(attempt.trigger, result).inc()
            self.meters.compaction_seconds.labels(attempt.trigger).observe(attempt.seconds)
            span.note({"hermes.engine_seconds": attempt.seconds})
            span.end(result, failed=result == "failed")

    # -- gateway.core.observer.Observer ---------------------------------------------------------------------------

    def waits(self, message_id: str) -> None:
        self._turns.waits(message_id)

    def turn(self, conversation_id: str, inbound: InboundMessage) -> AbstractContextManager[None]:
        return self._turns.turn(conversation_id, inbound)

    def told(self, inbound: InboundMessage, event: TurnEvent) -> None:
        self._turns.told(inbound, event)

    @contextmanager
    def call(self, platform: str, name: str, turn_id: str) -> Iterator[None]:
        facts = {"hermes.platform": platform, "hermes.call": name}
        span, began, outcome = (
            self.tracing.begin("delivery", facts, turn_id=turn_id),
            time.perf_counter(),
            "ok",
        )
        try:
            yield
        except BaseException as error:
            outcome = self._outcome(type(error).__name__)
            raise
        finally:
            self.meters.platform_calls.labels(platform, name, outcome).inc()
            self.meters.platform_call_seconds.labels(platform).observe(time.perf_counter() - began)
            span.end(outcome, failed=outcome != "ok")

    def delivered(self, platform: str, outcome: str) -> None:
        self.meters.deliveries.labels(platform, outcome).inc()
