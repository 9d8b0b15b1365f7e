"""Where traces go, by the variables that OpenTelemetry has for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from gateway.config.environment import environment

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
_NAME = "OTEL_SERVICE_NAME"


@dataclass(frozen=True, slots=True)
class TracingSettings:
    endpoint: str
    """Of the collector; traces go to `/v1/traces` below it."""
    headers: str = field(default="", repr=False)
    """`name=value,name=value`, as OpenTelemetry writes them. May hold a key."""
    service: str = "hermes"

    @property
    def shown(self) -> str:
        """For people: without a user and a password that the address may hold."""
        parts = urlsplit(self.endpoint)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def tracing_settings(home: Path) -> TracingSettings | None:
    """None where nobody collects traces."""
    known = environment(home)
    endpoint = known.get(_ENDPOINT, "").strip().rstrip("/")
    if not endpoint:
        return None
    return TracingSettings(endpoint, known.get(_HEADERS, ""), known.get(_NAME) or "hermes")
