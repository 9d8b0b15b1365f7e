"""Tracing and its configuration. Spans hold ids, names, numbers and outcomes; never message text.

OpenTelemetry is imported only if `OTEL_EXPORTER_OTLP_ENDPOINT` is set and the extra `otel` is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from urllib.parse import urlsplit

from gateway.config.environment import environment
from gateway.config.loader import LoadedConfig

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
_NAME = "OTEL_SERVICE_NAME"

Attributes = Mapping[str, str | int | float]

NOT_INSTALLED = (
    "not sent: OTEL_EXPORTER_OTLP_ENDPOINT is set, but the extra is missing; pip install -e '.[otel]'"
)
NO_ADDRESS = (
    "not sent: OTEL_EXPORTER_OTLP_ENDPOINT must begin with http:// or https://, as in http://127.0.0.1:4318"
)


class Span:
    """A span that is not recorded; `gateway.observability.opentelemetry` has the real one."""

    def set_attributes(self, attributes: Attributes) -> None: ...

    def end(self, outcome: str, *, failed: bool = False) -> None:
        """End the span; later calls do nothing."""

    def active(self) -> AbstractContextManager[object]:
        """Make this span the parent of spans started inside the `with` block."""
        return nullcontext()


class Tracing:
    """Tracing that is off."""

    def start_span(self, name: str, attributes: Attributes, *, turn_id: str = "") -> Span:
        """Start a span below the active span, or below the turn `turn_id`, which may have ended."""
        return _NO_SPAN

    def start_turn(self, turn_id: str, attributes: Attributes) -> Span:
        return _NO_SPAN

    def close(self) -> None:
        """Send the remaining spans. Takes up to a few seconds, so do not call it on the event loop."""


_NO_SPAN = Span()


def configured_tracing(loaded: LoadedConfig) -> tuple[Tracing, str]:
    """Return the tracing that the standard variables of OpenTelemetry configure, and a start-up line about it, which is
    empty if tracing is off. Imports slowly, so do not call it on the event loop."""
    known = environment(loaded.home)
    endpoint = known.get(_ENDPOINT, "").strip().rstrip("/")
    if not endpoint:
        return Tracing(), ""
    if not endpoint.startswith(("http://", "https://")):
        return Tracing(), NO_ADDRESS
    try:
        from gateway.observability.opentelemetry import OpenTelemetryTracing  # noqa: PLC0415 - optional
    except ImportError:
        return Tracing(), NOT_INSTALLED
    tracing = OpenTelemetryTracing(endpoint, known.get(_HEADERS, ""), known.get(_NAME) or "hermes")
    # Without a user name and password, which the URL may hold.
    parts = urlsplit(endpoint)
    return tracing, f"sent to {parts.scheme}://{parts.netloc.rpartition('@')[2]}"
