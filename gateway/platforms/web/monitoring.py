"""Endpoints for monitoring: `/healthz`, `/readyz`, `/metrics` and `/api/status`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.metadata import version

from aiohttp import hdrs, web

from gateway.core.gateway import Gateway
from gateway.core.health import Readiness
from gateway.observability import Metrics
from gateway.observability.prometheus import PrometheusExporter
from gateway.platforms.base import Platform
from gateway.platforms.web.dashboard import DashboardContext


def status_routes(context: DashboardContext) -> list[web.RouteDef]:
    """Build the route that `hermes status` asks. Reads the version from a file."""
    began, installed = time.time(), version("hermes-gateway")

    async def status(request: web.Request) -> web.Response:
        return web.json_response(
            {
                "service": "hermes",
                "version": installed,
                "pid": os.getpid(),
                "since": began,
                "database": str(context.loaded.database),
                "platforms": {
                    platform.name: {**asdict(platform.health), "where": platform.where}
                    for platform in context.platforms
                },
                "active_turns": context.gateway.active_count,
                "waiting": context.gateway.waiting,
                "model": context.model,
                "engine": context.engine,
                "notices": list(context.gateway.plugins.notices),
                "needs_restart": list(context.gateway.settings.restart_required),
                "refused": list(context.gateway.settings.rejected),
            }
        )

    return [web.get("/api/status", status)]


class Monitoring:
    """Handlers of `/healthz` and `/readyz`, which need no token, and of `/metrics`, which does."""

    def __init__(self, gateway: Gateway, platforms: Sequence[Platform], metrics: Metrics | None) -> None:
        self._platforms = platforms
        self._readiness = Readiness(gateway, platforms)
        self._exporter = PrometheusExporter(metrics, gateway, self._readiness) if metrics else None

    def routes(self) -> Iterable[web.RouteDef]:
        yield web.get("/healthz", self._health)
        yield web.get("/readyz", self._ready)
        if self._exporter:
            yield web.get("/metrics", self._metrics)

    async def _health(self, request: web.Request) -> web.Response:
        """Answer 200 even if a platform is down: the others still work."""
        states = {platform.name: asdict(platform.health) for platform in self._platforms}
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

    async def _metrics(self, request: web.Request) -> web.Response:
        assert self._exporter
        text, content_type = await self._exporter(request.headers.get(hdrs.ACCEPT, ""))
        return web.Response(body=text, headers={hdrs.CONTENT_TYPE: content_type})
