"""The page Parked: messages and replies that Hermes gave up on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aiohttp import web

from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.platforms.web.request_params import required_strings, result_response
from gateway.platforms.web.security import is_owner

_MAX_ROWS = 100


def routes(context: DashboardContext, page: PageRenderer) -> list[web.RouteDef]:
    items = context.gateway.parked
    actions = {
        ("retry", "message"): items.retry_message,
        ("retry", "reply"): items.retry_reply,
        ("dismiss", "message"): items.dismiss_message,
        ("dismiss", "reply"): items.dismiss_reply,
    }

    async def gather(request: web.Request) -> dict[str, Any]:
        """Read one row more than the page shows, to know whether there are more. Only the owner sees message text."""
        found = await context.reports.parked(limit=_MAX_ROWS + 1)
        rows = found[:_MAX_ROWS]
        if not is_owner(request):
            rows = [replace(each, text="") for each in rows]
        return {"parked": rows, "more": len(found) > _MAX_ROWS, "most": _MAX_ROWS}

    async def act(request: web.Request) -> web.Response:
        kind, row_id = await required_strings(request, "kind", "id")
        action = actions.get((request.match_info["action"], kind))
        if action is None:
            raise web.HTTPBadRequest(text="`kind` must be `message` or `reply`.")
        return result_response(await action(row_id))

    return [
        *page.live("/dashboard/parked", "dashboard/parked.html", gather),
        web.post("/api/dashboard/parked/{action:retry|dismiss}", act),
    ]
