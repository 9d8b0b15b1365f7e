"""What could not be answered or delivered: another chance for it, or its end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aiohttp import web

from gateway.platforms.web.dashboard.asked import asked, said
from gateway.platforms.web.dashboard.frame import Frame
from gateway.platforms.web.dashboard.house import House
from gateway.platforms.web.security import may_act

_MOST = 100


def routes(house: House, frame: Frame) -> list[web.RouteDef]:
    chances = house.gateway.second_chances
    verbs = {
        ("retry", "message"): chances.retry_message,
        ("retry", "reply"): chances.retry_reply,
        ("dismiss", "message"): chances.dismiss_message,
        ("dismiss", "reply"): chances.dismiss_reply,
    }

    async def gather(request: web.Request) -> dict[str, Any]:
        """One more than is shown, to know whether there are more. What people wrote is for the owner's eyes."""
        found = await house.insight.given_up(limit=_MOST + 1)
        shown = found[:_MOST]
        if not may_act(request):
            shown = [replace(each, text="") for each in shown]
        return {"parked": shown, "more": len(found) > _MOST, "most": _MOST}

    async def act(request: web.Request) -> web.Response:
        kind, row_id = await asked(request, "kind", "id")
        verb = verbs.get((request.match_info["verb"], kind))
        if verb is None:
            raise web.HTTPBadRequest(text="`kind` must be `message` or `reply`.")
        return said(await verb(row_id))

    return [
        *frame.page("/dashboard/parked", "dashboard/parked.html", gather),
        web.post("/api/dashboard/parked/{verb:retry|dismiss}", act),
    ]
