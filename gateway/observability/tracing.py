"""Tracing and its configuration. Spans hold ids, names, numbers and outcomes; never message text.

OpenTelemetry is imported only if `OTEL_EXPORTER_OTLP_ENDPOINT` is set and the extra `otel` is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
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


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """Settings from the standard variables of OpenTelemetry."""

    endpoint: str
    """URL of the collector; traces go to `/v1/traces` below it."""
    headers: str = field(default="", repr=False)
    """`name=value,name=value`; may hold a key."""
    service: str = "hermes"

    @property
    def public_endpoint(self) -> str:
        """The endpoint without a user name and password."""
        parts = urlsplit(self.endpoint)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def tracing_settings(home: Path) -> TracingSettings | None:
    """Read the settings; None if tracing is off."""
    known = environment(home)
    endpoint = known.get(_ENDPOINT, "").strip().rstrip("/")
    if not endpoint:
        return None
    return TracingSettings(endpoint, known.get(_HEADERS, ""), known.get(_NAME) or "hermes")


def configured_tracing(loaded: LoadedConfig) -> tuple[Tracing, str]:
    """Return the tracing and a start-up line about it, which is empty if tracing is off. Imports slowly, so do not call
    it on the event loop."""
    settings = tracing_settings(loaded.home)
    if settings is None:
        return Tracing(), ""
    if not settings.endpoint.startswith(("http://", "https://")):
        return Tracing(), NO_ADDRESS
    try:
        from gateway.observability.opentelemetry import OpenTelemetryTracing  # noqa: PLC0415 - optional
    except ImportError:
        return Tracing(), NOT_INSTALLED
    return OpenTelemetryTracing(settings), f"sent to {settings.public_endpoint}"
