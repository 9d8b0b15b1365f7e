"""What `/metrics` answers: what was counted, and how things stand at this moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, PlatformCollector, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from agent.errors import StoreError
from gateway.core.gateway import Gateway
from gateway.core.health import Readiness
from gateway.observability.definitions import Meters
from gateway.observability.metrics import Metrics

_INBOX = ("waiting", "parked")
_OUTBOX = ("pending", "sending", "parked")

Counts = Mapping[tuple[str, str], int]
"""By platform and state."""


@dataclass(slots=True)
class _Present:
    """As it was asked for just now."""

    queue: int = 0
    inbox: Counts = field(default_factory=dict)
    outbox: Counts = field(default_factory=dict)
    up: Mapping[str, bool] = field(default_factory=dict)
    is_ready: bool = False


class Scrape:
    """Reads files, so it is not made on the event loop."""

    def __init__(self, metrics: Metrics, gateway: Gateway, readiness: Readiness) -> None:
        self._meters = metrics.meters
        self._gateway = gateway
        self._readiness = readiness
        self._present = _Present()
        self._lock = asyncio.Lock()
        # A registry around the other one: the same metrics may be served again by a server that is started anew.
        self._registry = CollectorRegistry()
        self._registry.register(metrics.registry)
        self._registry.register(_PresentCollector(lambda: self._present, metrics.meters))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    async def __call__(self, accept: str) -> tuple[bytes, str]:
        """The text and its content type."""
        encode, content_type = choose_encoder(accept)
        async with self._lock:
            self._present = await self._look()
            # In a thread: the process's own figures are read from files.
            return await asyncio.to_thread(encode, self._registry), content_type

    async def _look(self) -> _Present:
        verdict = await self._readiness.check()
        present = _Present(self._gateway.waiting, up=verdict.platforms_up, is_ready=verdict.is_ready)
        for platform in present.up:
            self._meters.begin_at_zero(platform)
        with suppress(StoreError):  # what was counted is told all the same
            store = self._gateway.store
            present.inbox, present.outbox = await store.inbox.counts(), await store.outbox.counts()
        return present


class _PresentCollector(Collector):
    def __init__(self, present: Callable[[], _Present], meters: Meters) -> None:
        self._present = present
        self._meters = meters

    def collect(self) -> Iterable[Metric]:
        now = self._present()
        yield _gauge("hermes_queue_depth", "Messages that wait for their turn.", now.queue)
        yield _by_state("hermes_inbox_messages", "Messages not dealt with.", now.inbox, now.up, _INBOX)
        yield _by_state("hermes_outbox_messages", "Replies not delivered.", now.outbox, now.up, _OUTBOX)
        yield _labelled("hermes_platform_up", "Whether it takes messages.", "platform", now.up)
        yield _gauge("hermes_ready", "What /readyz says.", now.is_ready)
        yield _gauge("hermes_cache_hit_ratio", "Prompt tokens from a cache, since the start.", self._ratio())
        yield _labelled("hermes_info", "Which Hermes this is.", "version", {version("hermes-gateway"): 1})

    def _ratio(self) -> float:
        asked, cached = _sum(self._meters.tokens_in), _sum(self._meters.tokens_cached)
        return cached / asked if asked else 0.0


def _sum(counter: Counter) -> float:
    return sum(sample.value for metric in counter.collect() for sample in metric.samples)


def _gauge(name: str, meaning: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, meaning, value=float(value))


def _labelled(name: str, meaning: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, meaning, labels=[label])
    for labelled, value in values.items():
        family.add_metric([labelled], float(value))
    return family


def _by_state(
    name: str, meaning: str, counts: Counts, platforms: Iterable[str], states: Sequence[str]
) -> GaugeMetricFamily:
    """With noughts: what has no series cannot be alerted on."""
    family = GaugeMetricFamily(name, meaning, labels=["platform", "state"])
    for key, count in ({(each, state): 0 for each in platforms for state in states} | dict(counts)).items():
        family.add_metric(key, count)
    return family
