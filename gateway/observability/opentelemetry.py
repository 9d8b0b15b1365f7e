"""Traces sent by OTLP over HTTP. Imported only if tracing is on: the extra `otel` is optional."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import AbstractContextManager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode
from opentelemetry.util.re import parse_env_headers

from gateway.observability.tracing import Attributes, Span, Tracing

_EXPORT_SECONDS = 3.0
"""Time limit for one batch, retries included: a stop does not wait for an unreachable collector."""

_MAX_TURNS = 1_000
"""Remembered turns: a delivery after the end of its turn is still traced as a part of it."""


class OpenTelemetryTracing(Tracing):
    """Tracing with a private provider, not the global one, so that libraries are not traced."""

    def __init__(self, endpoint: str, headers: str, service: str) -> None:
        """`endpoint` is the URL of the collector; `headers` is `name=value,name=value` and may hold a key."""
        exporter = OTLPSpanExporter(
            endpoint=f"{endpoint}/v1/traces",
            headers=parse_env_headers(headers, liberal=True),
            timeout=_EXPORT_SECONDS,
        )
        resource = Resource.create({"service.name": service})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("hermes")
        self._turns: OrderedDict[str, SpanContext] = OrderedDict()

    def start_span(self, name: str, attributes: Attributes, *, turn_id: str = "") -> Span:
        parent = self._turns.get(turn_id)
        within = trace.set_span_in_context(NonRecordingSpan(parent)) if parent else None
        return _Span(self._tracer.start_span(name, context=within, attributes=dict(attributes)))

    def start_turn(self, turn_id: str, attributes: Attributes) -> Span:
        """Start a root span: the web request that caused the turn is not its parent."""
        span = self._tracer.start_span("turn", context=Context(), attributes=dict(attributes))
        self._turns[turn_id] = span.get_span_context()
        if len(self._turns) > _MAX_TURNS:
            self._turns.popitem(last=False)
        return _Span(span)

    def close(self) -> None:
        self._provider.shutdown()


class _Span(Span):
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set_attributes(self, attributes: Attributes) -> None:
        self._span.set_attributes(dict(attributes))

    def end(self, outcome: str, *, failed: bool = False) -> None:
        if not self._span.is_recording():
            return
        self._span.set_attribute("hermes.outcome", outcome)
        if failed:
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()

    def active(self) -> AbstractContextManager[object]:
        # Exceptions are not recorded: their messages may quote what people said.
        return trace.use_span(self._span, record_exception=False, set_status_on_exception=False)
