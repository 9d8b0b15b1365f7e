"""Endpoints for monitoring: `/healthz`, `/readyz`, `/metrics` and `/api/status`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import version

from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry, Counter, PlatformCollector, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from agent.errors import StoreError
from gateway.core.health import Readiness
from gateway.observability.definitions import Meters
from gateway.platforms.web.dashboard.page import DashboardContext


class Monitoring:
    """Handlers of `/healthz` and `/readyz`, which need no token, and of `/metrics` and `/api/status`, which do. The
    constructor reads files, so it does not run on the event loop."""

    def __init__(self, context: DashboardContext) -> None:
        self._context = context
        self._gateway = context.gateway
        self._readiness = Readiness(context.gateway, context.platforms)
        self._started_at = time.time()
        self._version = version("hermes-gateway")
        self._scrape = asyncio.Lock()
        self._gauges = _GaugeCollector(context.metrics.meters, self._version)
        # A registry around that of the metrics: a restarted web server exports the same metrics again.
        self._registry = CollectorRegistry()
        self._registry.register(context.metrics.registry)
        self._registry.register(self._gauges)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/healthz", self._health),
            web.get("/readyz", self._ready),
            web.get("/metrics", self._metrics),
            web.get("/api/status", self._status),
        ]

    async def _health(self, request: web.Request) -> web.Response:
        """Answer 200 even if a platform is down: the others still work."""
        states = {platform.name: asdict(platform.health) for platform in self._context.platforms}
        all_up = all(state["state"] == "up" for state in states.values())
        status = "ok" if all_up else "degraded"
        return web.json_response({"status": status, "service": "hermes", "platforms": states})

    async def _ready(self, request: web.Request) -> web.Response:
        report = await self._readiness.check()
        body = {
            "status": "ready" if report.is_ready else "not ready",
            "platforms": dict(report.platforms),
            "problems": dict(report.problems),
        }
        return web.json_response(body, status=200 if report.is_ready else 503)

    async def _status(self, request: web.Request) -> web.Response:
        """Answer `hermes status`."""
        context, gateway = self._context, self._gateway
        return web.json_response(
            {
                "service": "hermes",
                "version": self._version,
                "pid": os.getpid(),
                "since": self._started_at,
                "database": str(context.loaded.database),
                "platforms": {
                    platform.name: {**asdict(platform.health), "where": platform.where}
                    for platform in context.platforms
                },
                "active_turns": gateway.active_count,
                "waiting": gateway.waiting,
                "model": context.model,
                "engine": context.engine,
                "notices": list(gateway.plugins.notices),
                "needs_restart": list(gateway.settings.restart_required),
                "refused": list(gateway.settings.rejected),
            }
        )

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get(hdrs.ACCEPT, ""))
        async with self._scrape:
            self._gauges.values = await self._read_gauges()
            # In a thread: the figures of the process are read from files.
            text = await asyncio.to_thread(encode, self._registry)
        return web.Response(body=text, headers={hdrs.CONTENT_TYPE: content_type})

    async def _read_gauges(self) -> _Gauges:
        report = await self._readiness.check()
        gauges = _Gauges(self._gateway.waiting, up=report.platforms_up, is_ready=report.is_ready)
        for platform in gauges.up:
            self._context.metrics.meters.initialize_platform(platform)
        with suppress(StoreError):  # counters are exported without the store, too
            store = self._gateway.store
            gauges.inbox, gauges.outbox = await store.inbox.counts(), await store.outbox.counts()
        return gauges


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


class _GaugeCollector(Collector):
    """Exports the values of the last scrape as gauges."""

    def __init__(self, meters: Meters, installed_version: str) -> None:
        self.values = _Gauges()
        self._meters = meters
        self._version = installed_version

    def collect(self) -> Iterable[Metric]:
        now = self.values
        inbox, outbox = ("waiting", "parked"), ("pending", "sending", "parked")
        yield _gauge("hermes_queue_depth", "Messages that wait for a turn.", now.queue)
        yield _by_state("hermes_inbox_messages", "Unfinished messages.", now.inbox, now.up, inbox)
        yield _by_state("hermes_outbox_messages", "Undelivered replies.", now.outbox, now.up, outbox)
        yield _labelled("hermes_platform_up", "1 if the platform takes messages.", "platform", now.up)
        yield _gauge("hermes_ready", "1 if /readyz answers 200.", now.is_ready)
        tokens, cached = _sum(self._meters.tokens_in), _sum(self._meters.tokens_cached)
        ratio = cached / tokens if tokens else 0.0
        yield _gauge("hermes_cache_hit_ratio", "Share of prompt tokens read from a cache.", ratio)
        yield _labelled("hermes_info", "Version of Hermes.", "version", {self._version: 1})


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
