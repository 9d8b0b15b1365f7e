"""Spans: what a turn was made of, for whoever collects traces. Ids, names, numbers and outcomes; never a text.

Nothing of OpenTelemetry is imported unless `OTEL_EXPORTER_OTLP_ENDPOINT` is set and the extra `otel` installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from gateway.config.loader import Loaded
from gateway.observability.tracing_setup import tracing_settings

Facts = Mapping[str, str | int | float]

NOT_INSTALLED = (
    "none are sent: OTEL_EXPORTER_OTLP_ENDPOINT is set, but the extra is missing; pip install -e '.[otel]'"
)
NO_ADDRESS = "none are sent: OTEL_EXPORTER_OTLP_ENDPOINT must begin with http:// or https://, as in http://127.0.0.1:4318"


class Span(Protocol):
    def note(self, facts: Facts) -> None: ...

    def end(self, outcome: str, *, failed: bool = False) -> None:
        """Only the first time counts."""
        ...

    def under_way(self) -> AbstractContextManager[object]:
        """What the code inside begins is a part of this one."""
        ...


class Tracing(Protocol):
    def begin(self, name: str, facts: Facts, *, turn_id: str = "") -> Span:
        """A part of what is under way where this is called; or of that turn, which may be over."""
        ...

    def begin_turn(self, turn_id: str, facts: Facts) -> Span: ...

    def close(self) -> None:
        """Sends what was not sent yet. Takes up to a few seconds, so not on the event loop."""
        ...


class _NoSpan:
    def note(self, facts: Facts) -> None: ...

    def end(self, outcome: str, *, failed: bool = False) -> None: ...

    def under_way(self) -> AbstractContextManager[object]:
        return nullcontext()


_NO_SPAN = _NoSpan()


class NoTracing:
    """Nobody collects them."""

    def begin(self, name: str, facts: Facts, *, turn_id: str = "") -> Span:
        return _NO_SPAN

    def begin_turn(self, turn_id: str, facts: Facts) -> Span:
        return _NO_SPAN

    def close(self) -> None: ...


def configured_tracing(loaded: Loaded) -> tuple[Tracing, str]:
    """With a line about it for the person who starts Hermes; empty where no traces are wanted. Imports a good deal, so
    not on the event loop."""
    settings = tracing_settings(loaded.home)
    if settings is None:
        return NoTracing(), ""
    if not settings.endpoint.startswith(("http://", "https://")):
        return NoTracing(), NO_ADDRESS
    try:
        from gateway.observability.opentelemetry import OpenTelemetryTracing  # noqa: PLC0415 - see above
    except ImportError:
        return NoTracing(), NOT_INSTALLED
    return OpenTelemetryTracing(settings), f"sent to {settings.shown}"
