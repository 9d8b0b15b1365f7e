"""Every metric of Hermes, in one place. `docs/metrics.md` says what each means; a test compares the two.

No label ever holds a conversation, a person or a text. What a model or a plugin could invent is bounded.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from agent.llm import Usage

# A series that says when another one began doubles everything and is used by nobody.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves this one without types

TURN_OUTCOMES = ("answered", "command", "stopped", "failed", "interrupted")
DELIVERY_OUTCOMES = ("sent", "parked")
OTHER = "other"

_MOST_VALUES = 64
_LONGEST_VALUE = 100

_SECONDS_OF_WORK = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_SECONDS_OF_A_CALL = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SECONDS_OF_LAG = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


class Bounded:
    """The first values of a label as they are; from then on `other`. A label with ever new values would fill the memory
    of whoever collects them."""

    def __init__(self, most: int = _MOST_VALUES) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        if value in self._known:
            return value
        if len(self._known) >= self._most or len(value) > _LONGEST_VALUE:
            return OTHER
        self._known.add(value)
        return value


class Meters:
    """On a registry of their own: two Hermes in one process do not count for each other."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(f"hermes_{name}", meaning, labels, registry=registry)

        def histogram(name: str, meaning: str, *labels: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"hermes_{name}", meaning, labels, registry=registry, buckets=buckets)

        work, call = _SECONDS_OF_WORK, _SECONDS_OF_A_CALL
        self.turns = counter("turns", "Turns that are over.", "platform", "outcome")
        self.turns_active = Gauge("hermes_turns_active", "Turns under way.", ["platform"], registry=registry)
        self.turn_seconds = histogram("turn_seconds", "A turn, commands left out.", "platform", buckets=work)
        self.first_token_seconds = histogram(
            "first_token_seconds", "From the beginning of a turn to its first text.", "platform", buckets=work
        )
        self.wait_seconds = histogram(
            "wait_seconds", "A message in line, until its turn began.", "platform", buckets=(0.01, *work)
        )
        self.model_calls = counter("model_calls", "Model calls.", "model", "purpose", "outcome")
        self.model_call_seconds = histogram("model_call_seconds", "A model call.", "model", buckets=work)
        self.tokens_in = counter("tokens_in", "Prompt tokens, cached ones included.", "model")
        self.tokens_out = counter("tokens_out", "Tokens the models wrote.", "model")
        self.tokens_cached = counter("tokens_cached", "Prompt tokens that a cache served.", "model")
        self.tokens_cache_written = counter("tokens_cache_written", "Tokens put into a cache.", "model")
        self.cost_usd = counter("cost_usd", "What models cost, in US dollars.", "model", "purpose")
        self.unpriced_calls = counter("unpriced_calls", "Model calls of unknown price.", "model")
        self.tool_calls = counter("tool_calls", "Tool calls.", "tool", "outcome")
        self.tool_seconds = histogram("tool_seconds", "A tool call.", "tool", buckets=call)
        self.compactions = counter("compactions", "Compactions.", "trigger", "outcome")
        self.compaction_seconds = histogram(
            "compaction_seconds", "What a compaction took.", "trigger", buckets=work
        )
        self.deliveries = counter(
            "deliveries", "Answers, notices and files for a chat.", "platform", "outcome"
        )
        self.platform_calls = counter(
            "platform_calls", "Calls of a chat service.", "platform", "call", "outcome"
        )
        self.platform_call_seconds = histogram(
            "platform_call_seconds", "A call of a chat service.", "platform", buckets=call
        )
        self.errors = counter("errors", "Warnings and errors in the log.", "kind", "error")
        self.event_loop_lag = histogram(
            "event_loop_lag_seconds", "How late the event loop was.", buckets=_SECONDS_OF_LAG
        )
        self._model, self._purpose = Bounded(), Bounded()

    def begin_at_zero(self, platform: str) -> None:
        """A rate can be computed from the first turn on."""
        for outcome in TURN_OUTCOMES:
            self.turns.labels(platform, outcome)
        self.turns_active.labels(platform)

    def used(self, model: str, purpose: str, usage: Usage) -> None:
        """What one call took."""
        model, purpose = self._model(model), self._purpose(purpose)
        self.tokens_in.labels(model).inc(usage.prompt_tokens)
        self.tokens_out.labels(model).inc(usage.completion_tokens)
        self.tokens_cached.labels(model).inc(usage.cache_read_tokens)
        self.tokens_cache_written.labels(model).inc(usage.cache_write_tokens)
        if usage.cost_usd is None:
            self.unpriced_calls.labels(model).inc()
        else:
            self.cost_usd.labels(model, purpose).inc(max(usage.cost_usd, 0.0))

    def asked(self, model: str, purpose: str, outcome: str, seconds: float) -> None:
        model = self._model(model)
        self.model_calls.labels(model, self._purpose(purpose), outcome).inc()
        self.model_call_seconds.labels(model).observe(seconds)
