"""`/api/status`: what only the running process knows. `hermes status` finds the rest in the store."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from importlib.metadata import version

from aiohttp import web

from gateway.platforms.web.dashboard import House


def routes(house: House) -> list[web.RouteDef]:
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
