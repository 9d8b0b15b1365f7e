"""Logs, metrics for Prometheus, and traces for OpenTelemetry."""
