"""Definitions of all metrics. `docs/metrics.md` explains them; a test compares the two.

No label holds a conversation, a person or text. Labels whose values a model or a plugin chooses are bounded.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from agent.llm import Usage

# The `_created` series would double the output and nothing reads them.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves this one without types

TURN_OUTCOMES = ("answered", "command", "stopped", "failed", "interrupted")
OTHER = "other"

_MAX_VALUES = 64
_MAX_VALUE_LENGTH = 100

_WORK_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_CALL_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_LAG_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


class BoundedLabel:
    """Passes the first values of a label and maps all later ones to `other`: unbounded labels fill the memory of the
    collector."""

    def __init__(self, max_values: int = _MAX_VALUES) -> None:
        self._max_values = max_values
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        if value in self._known:
            return value
        if len(self._known) >= self._max_values or len(value) > _MAX_VALUE_LENGTH:
            return OTHER
        self._known.add(value)
        return value


class Meters:
    """The counters, gauges and histograms of one gateway, on one registry: two gateways in a process stay apart."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(f"hermes_{name}", meaning, labels, registry=registry)

        def histogram(name: str, meaning: str, *labels: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"hermes_{name}", meaning, labels, registry=registry, buckets=buckets)

        work, call = _WORK_BUCKETS, _CALL_BUCKETS
        self.turns = counter("turns", "Finished turns.", "platform", "outcome")
        self.turns_active = Gauge("hermes_turns_active", "Running turns.", ["platform"], registry=registry)
        self.turn_seconds = histogram(
            "turn_seconds", "Duration of turns without commands.", "platform", buckets=work
        )
        self.first_token_seconds = histogram(
            "first_token_seconds",
            "Time from the start of a turn to its first text.",
            "platform",
            buckets=work,
        )
        self.wait_seconds = histogram(
            "wait_seconds", "Time a message waited for its turn.", "platform", buckets=(0.01, *work)
        )
        self.model_calls = counter("model_calls", "Model calls.", "model", "purpose", "outcome")
        self.model_call_seconds = histogram(
            "model_call_seconds", "Duration of model calls.", "model", buckets=work
        )
        self.tokens_in = counter("tokens_in", "Prompt tokens, including cached ones.", "model")
        self.tokens_out = counter("tokens_out", "Completion tokens.", "model")
        self.tokens_cached = counter("tokens_cached", "Prompt tokens read from a cache.", "model")
        self.tokens_cache_written = counter("tokens_cache_written", "Tokens written to a cache.", "model")
        self.cost_usd = counter("cost_usd", "Cost of model calls in US dollars.", "model", "purpose")
        self.unpriced_calls = counter("unpriced_calls", "Model calls of unknown price.", "model")
        self.tool_calls = counter("tool_calls", "Tool calls.", "tool", "outcome")
        self.tool_seconds = histogram("tool_seconds", "Duration of tool calls.", "tool", buckets=call)
        self.compactions = counter("compactions", "Compactions.", "trigger", "outcome")
        self.compaction_seconds = histogram(
            "compaction_seconds", "Duration of compactions.", "trigger", buckets=work
        )
        self.deliveries = counter(
            "deliveries", "Answers, notices and files for a chat.", "platform", "outcome"
        )
        self.platform_calls = counter(
            "platform_calls", "Calls to a chat service.", "platform", "call", "outcome"
        )
        self.platform_call_seconds = histogram(
            "platform_call_seconds", "Duration of calls to a chat service.", "platform", buckets=call
        )
        self.errors = counter("errors", "Warnings and errors in the log.", "kind", "error")
        self.event_loop_lag = histogram(
            "event_loop_lag_seconds", "Delay of the event loop.", buckets=_LAG_BUCKETS
        )
        self._model, self._purpose = BoundedLabel(), BoundedLabel()

    def initialize_platform(self, platform: str) -> None:
        """Create the series of a platform at zero, so that rates work from the first turn on."""
        for outcome in TURN_OUTCOMES:
            self.turns.labels(platform, outcome)
        self.turns_active.labels(platform)

    def count_usage(self, model: str, purpose: str, usage: Usage) -> None:
        model, purpose = self._model(model), self._purpose(purpose)
        self.tokens_in.labels(model).inc(usage.prompt_tokens)
        self.tokens_out.labels(model).inc(usage.completion_tokens)
        self.tokens_cached.labels(model).inc(usage.cache_read_tokens)
        self.tokens_cache_written.labels(model).inc(usage.cache_write_tokens)
        if usage.cost_usd is None:
            self.unpriced_calls.labels(model).inc()
        else:
            self.cost_usd.labels(model, purpose).inc(max(usage.cost_usd, 0.0))

    def count_call(self, model: str, purpose: str, outcome: str, seconds: float) -> None:
        model = self._model(model)
        self.model_calls.labels(model, self._purpose(purpose), outcome).inc()
        self.model_call_seconds.labels(model).observe(seconds)
