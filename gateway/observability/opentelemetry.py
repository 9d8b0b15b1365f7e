"""Traces by OTLP over HTTP. Imported only where they are wanted: the extra `otel` is not always installed."""

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

from gateway.observability.tracing import Facts, Span
from gateway.observability.tracing_setup import TracingSettings

_SECONDS = 3.0
"""To hand in one batch, tries included: a stop must not wait for a collector that is gone."""

_KNOWN_TURNS = 1_000
"""What is delivered after its turn is over still belongs to it; the oldest are forgotten."""


class OpenTelemetryTracing:
    """With a provider of its own, not the process's: nothing else is traced."""

    def __init__(self, settings: TracingSettings) -> None:
        exporter = OTLPSpanExporter(
            endpoint=f"{settings.endpoint}/v1/traces",
            headers=parse_env_headers(settings.headers, liberal=True),
            timeout=_SECONDS,
        )
        resource = Resource.create({"service.name": settings.service})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("hermes")
        self._turns: OrderedDict[str, SpanContext] = OrderedDict()

    def begin(self, name: str, facts: Facts, *, turn_id: str = "") -> Span:
        parent = self._turns.get(turn_id)
        within = trace.set_span_in_context(NonRecordingSpan(parent)) if parent else None
        return _Span(self._tracer.start_span(name, context=within, attributes=dict(facts)))

    def begin_turn(self, turn_id: str, facts: Facts) -> Span:
        """What led to it, a request of the page, is no part of it."""
        span = self._tracer.start_span("turn", context=Context(), attributes=dict(facts))
        self._turns[turn_id] = span.get_span_context()
        if len(self._turns) > _KNOWN_TURNS:
            self._turns.popitem(last=False)
        return _Span(span)

    def close(self) -> None:
        self._provider.shutdown()


class _Span:
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def note(self, facts: Facts) -> None:
        self._span.set_attributes(dict(facts))

    def end(self, outcome: str, *, failed: bool = False) -> None:
        if not self._span.is_recording():
            return
        self._span.set_attribute("hermes.outcome", outcome)
        if failed:
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()

    def under_way(self) -> AbstractContextManager[object]:
        # An exception's words may quote what was said, so they are not recorded.
        return trace.use_span(self._span, record_exception=False, set_status_on_exception=False)
