"""Logs, metrics for Prometheus, traces for OpenTelemetry, and a snapshot of the gateway for the dashboard."""

from gateway.observability.metrics import Metrics, Snapshot, WarningCount

__all__ = ["Metrics", "Snapshot", "WarningCount"]
