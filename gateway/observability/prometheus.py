"""The text of `/metrics`: counters, and gauges that are read at each scrape."""

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
"""Number of messages by (platform, state)."""


@dataclass(slots=True)
class _Gauges:
    """Values read at a scrape."""

    queue: int = 0
    inbox: Counts = field(default_factory=dict)
    outbox: Counts = field(default_factory=dict)
    up: Mapping[str, bool] = field(default_factory=dict)
    is_ready: bool = False


class PrometheusExporter:
    """Renders `/metrics`. The constructor reads files, so it does not run on the event loop."""

    def __init__(self, metrics: Metrics, gateway: Gateway, readiness: Readiness) -> None:
        self._meters = metrics.meters
        self._gateway = gateway
        self._readiness = readiness
        self._gauges = _Gauges()
        self._lock = asyncio.Lock()
        # A registry around that of `metrics`: a restarted web server exports the same metrics again.
        self._registry = CollectorRegistry()
        self._registry.register(metrics.registry)
        self._registry.register(_GaugeCollector(lambda: self._gauges, metrics.meters))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    async def __call__(self, accept: str) -> tuple[bytes, str]:
        """Return the text and its content type."""
        encode, content_type = choose_encoder(accept)
        async with self._lock:
            self._gauges = await self._read_gauges()
            # In a thread: the figures of the process are read from files.
            return await asyncio.to_thread(encode, self._registry), content_type

    async def _read_gauges(self) -> _Gauges:
        report = await self._readiness.check()
        gauges = _Gauges(self._gateway.waiting, up=report.platforms_up, is_ready=report.is_ready)
        for platform in gauges.up:
            self._meters.initialize_platform(platform)
        with suppress(StoreError):  # counters are exported without the store, too
            store = self._gateway.store
            gauges.inbox, gauges.outbox = await store.inbox.counts(), await store.outbox.counts()
        return gauges


class _GaugeCollector(Collector):
    def __init__(self, gauges: Callable[[], _Gauges], meters: Meters) -> None:
        self._gauges = gauges
        self._meters = meters

    def collect(self) -> Iterable[Metric]:
        now = self._gauges()
        yield _gauge("hermes_queue_depth", "Messages that wait for a turn.", now.queue)
        yield _by_state("hermes_inbox_messages", "Unfinished messages.", now.inbox, now.up, _INBOX)
        yield _by_state("hermes_outbox_messages", "Undelivered replies.", now.outbox, now.up, _OUTBOX)
        yield _labelled("hermes_platform_up", "1 if the platform takes messages.", "platform", now.up)
        yield _gauge("hermes_ready", "1 if /readyz answers 200.", now.is_ready)
        ratio = self._cache_hit_ratio()
        yield _gauge("hermes_cache_hit_ratio", "Share of prompt tokens read from a cache.", ratio)
        yield _labelled("hermes_info", "Version of Hermes.", "version", {version("hermes-gateway"): 1})

    def _cache_hit_ratio(self) -> float:
        tokens, cached = _sum(self._meters.tokens_in), _sum(self._meters.tokens_cached)
        return cached / tokens if tokens else 0.0


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
    """Include zeros: an alert needs a series."""
    family = GaugeMetricFamily(name, meaning, labels=["platform", "state"])
    for key, count in ({(each, state): 0 for each in platforms for state in states} | dict(counts)).items():
        family.add_metric(key, count)
    return family
