"""For whoever looks after Hermes by machine: is it alive, does it take messages, and how is it doing?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from aiohttp import hdrs, web

from gateway.gateway import Gateway
from gateway.metrics import Metrics
from gateway.metrics.scrape import Scrape
from gateway.platforms.base import Platform
from gateway.readiness import Readiness


class Operations:
    """`/healthz` and `/readyz` are open to everybody; `/metrics` wants the token, if there is one."""

    def __init__(self, gateway: Gateway, platforms: Sequence[Platform], metrics: Metrics | None) -> None:
        self._platforms = platforms
        self._readiness = Readiness(gateway, platforms)
        self._scrape = Scrape(metrics, gateway, self._readiness) if metrics else None

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
