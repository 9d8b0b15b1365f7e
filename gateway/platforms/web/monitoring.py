"""For whoever looks after Hermes by machine: is it alive, does it take messages, and how is it doing?"""

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


def routes(house: DashboardContext) -> list[web.RouteDef]:
    began, installed = time.time(), version("hermes-gateway")  # which is read from a file

    async def status(request: web.Request) -> web.Response:
        return web.json_response(
            {
                "service": "hermes",
                "version": installed,
                "pid": os.getpid(),
                "since": began,
                "database": str(house.loaded.database),
                "platforms": {
                    platform.name: {**asdict(platform.health), "where": platform.where}
                    for platform in house.platforms
                },
                "active_turns": house.gateway.at_work,
                "waiting": house.gateway.waiting,
                "model": house.model,
                "engine": house.engine,
                "notices": list(house.gateway.plugins.notices),
                "needs_restart": list(house.gateway.needs_restart()),
                "refused": list(house.gateway.refused()),
            }
        )

    return [web.get("/api/status", status)]


class Operations:
    """`/healthz` and `/readyz` are open to everybody; `/metrics` wants the token, if there is one."""

    def __init__(self, gateway: Gateway, platforms: Sequence[Platform], metrics: Metrics | None) -> None:
        self._platforms = platforms
        self._readiness = Readiness(gateway, platforms)
        self._scrape = PrometheusExporter(metrics, gateway, self._readiness) if metrics else None

    def routes(self) -> Iterable[web.RouteDef]:
        yield web.get("/healthz", self._health)
        yield web.get("/readyz", self._ready)
        if self._scrape:
            yield web.get("/metrics", self._metrics)

    async def _health(self, request: web.Request) -> web.Response:
        """One platform that is down does not take the others down, so this is always an answer."""
        states = {platform.name: asdict(platform.health) for platform in self._platforms}
        all_up = all(state["state"] == "up" for state in states.values())
        status = "ok" if all_up else "degraded"
        return web.json_response({"status": status, "service": "hermes", "platforms": states})

    async def _ready(self, request: web.Request) -> web.Response:
        verdict = await self._readiness.check()
        told = {
            "status": "ready" if verdict.is_ready else "not ready",
            "platforms": dict(verdict.platforms),
            "problems": dict(verdict.problems),
        }
        return web.json_response(told, status=200 if verdict.is_ready else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        assert self._scrape
        text, content_type = await self._scrape(request.headers.get(hdrs.ACCEPT, ""))
        return web.Response(body=text, headers={hdrs.CONTENT_TYPE: content_type})
