"""The first page: is everything up, what is being worked on, what does it cost today."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from gateway.platforms.web.dashboard.frame import Frame
from gateway.platforms.web.dashboard.house import House


def routes(house: House, frame: Frame) -> list[web.RouteDef]:
    async def gather(request: web.Request) -> dict[str, Any]:
        return {"platforms": house.platforms, "at_work": house.gateway.at_work, "model": house.model}

    return frame.page("/dashboard", "dashboard/overview.html", gather)
