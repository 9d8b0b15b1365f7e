"""What is measured: counters for Prometheus, spans for OpenTelemetry, and a snapshot for the dashboard."""

from gateway.observability.metrics import Failure, Metrics, Snapshot

__all__ = ["Failure", "Metrics", "Snapshot"]
