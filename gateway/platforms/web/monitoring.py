"""Endpoints for monitoring: `/healthz`, `/readyz`, `/metrics` and `/api/status`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version

from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry, Counter, PlatformCollector, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from agent.errors import StoreCorrupt, StoreError
from gateway.core.gateway import Gateway
from gateway.platforms.base import Platform
from gateway.platforms.web.dashboard.page import DashboardContext

_WRITE_TIMEOUT = 2.0
_CACHE_SECONDS = 1.0
"""How long a result is reused: anyone may ask, and each check writes to the store."""

_NO_ANSWER = "The store does not respond: another program may have locked the database, or the disk is busy."
_STOPPING = "Hermes is stopping; it answers new messages after the next start."


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
        self._collector = _GaugeCollector()
        # A registry around that of the metrics: a restarted web server exports the same metrics again.
        self._registry = CollectorRegistry()
        self._registry.register(context.metrics.registry)
        self._registry.register(self._collector)
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
        problems = await self._readiness.problems()
        body = {
            "status": "not ready" if problems else "ready",
            "platforms": {platform.name: platform.health.state for platform in self._context.platforms},
            "problems": problems,
        }
        return web.json_response(body, status=503 if problems else 200)

    async def _status(self, request: web.Request) -> web.Response:
        """Answer `hermes status`."""
        context, gateway = self._context, self._gateway
        return web.json_response(
            {
                "service": "hermes",
                "version": self._version,
                "pid": os.getpid(),
                "since": self._started_at,
                "database": context.loaded.store_name,
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
            self._collector.gauges = await self._read_gauges()
            # In a thread: the figures of the process are read from files.
            text = await asyncio.to_thread(encode, self._registry)
        return web.Response(body=text, headers={hdrs.CONTENT_TYPE: content_type})

    async def _read_gauges(self) -> list[Metric]:
        meters, store = self._context.metrics.meters, self._gateway.store
        problems = await self._readiness.problems()
        up = {platform.name: platform.health.state == "up" for platform in self._context.platforms}
        for platform in up:
            meters.initialize_platform(platform)
        inbox: Counts = {}
        outbox: Counts = {}
        with suppress(StoreError):  # counters are exported without the store, too
            inbox, outbox = await store.inbox.counts(), await store.outbox.counts()
        tokens, cached = _sum(meters.tokens_in), _sum(meters.tokens_cached)
        ratio = cached / tokens if tokens else 0.0
        return [
            _gauge("queue_depth", "Messages that wait for a turn.", self._gateway.waiting),
            _by_state("inbox_messages", "Unfinished messages.", inbox, up, ("waiting", "parked")),
            _by_state(
                "outbox_messages", "Undelivered replies.", outbox, up, ("pending", "sending", "parked")
            ),
            _labelled("platform_up", "1 if the platform takes messages.", "platform", up),
            _gauge("ready", "1 if /readyz answers 200.", not problems),
            _gauge("cache_hit_ratio", "Share of prompt tokens read from a cache.", ratio),
            _labelled("info", "Version of Hermes.", "version", {self._version: 1}),
        ]


class Readiness:
    """Checks whether Hermes can accept messages now."""

    def __init__(self, gateway: Gateway, platforms: Sequence[Platform]) -> None:
        self._gateway = gateway
        self._platforms = platforms
        self._store_problem = ""
        self._checked_at: float | None = None
        self._lock = asyncio.Lock()

    async def problems(self) -> dict[str, str]:
        """Return a sentence for each part that cannot accept messages: a platform, `store` or `gateway`. No sentence
        names a person."""
        problems = {
            platform.name: platform.health.detail or f"It is {platform.health.state}."
            for platform in self._platforms
            if platform.health.state != "up"
        }
        if problem := await self._check_store():
            problems["store"] = problem
        if self._gateway.is_closing:
            problems["gateway"] = _STOPPING
        return problems

    async def _check_store(self) -> str:
        clock = asyncio.get_running_loop().time
        async with self._lock:
            if self._checked_at is None or clock() - self._checked_at > _CACHE_SECONDS:
                self._store_problem = await self._store_error()
                self._checked_at = clock()
            return self._store_problem

    async def _store_error(self) -> str:
        try:
            async with asyncio.timeout(_WRITE_TIMEOUT):
                await self._gateway.store.health.check_writable()
        except TimeoutError:
            return _NO_ANSWER
        except StoreError as error:
            # Without its detail, which may name files.
            return (type(error).__doc__ or "").strip()
        return (StoreCorrupt.__doc__ or "").strip() if self._gateway.store.health.damage else ""


Counts = Mapping[tuple[str, str], int]
"""Number of messages by (platform, state)."""


class _GaugeCollector(Collector):
    """Exports the gauges that were read at the last scrape."""

    def __init__(self) -> None:
        self.gauges: list[Metric] = []

    def collect(self) -> Iterable[Metric]:
        return self.gauges


def _sum(counter: Counter) -> float:
    return sum(sample.value for metric in counter.collect() for sample in metric.samples)


def _gauge(name: str, meaning: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"hermes_{name}", meaning, value=float(value))


def _labelled(name: str, meaning: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"hermes_{name}", meaning, labels=[label])
    for labelled, value in values.items():
        family.add_metric([labelled], float(value))
    return family


def _by_state(
    name: str, meaning: str, counts: Counts, platforms: Iterable[str], states: Sequence[str]
) -> GaugeMetricFamily:
    """Include zeros: an alert needs a series."""
    family = GaugeMetricFamily(f"hermes_{name}", meaning, labels=["platform", "state"])
    for key, count in ({(each, state): 0 for each in platforms for state in states} | dict(counts)).items():
        family.add_metric(key, count)
    return family
