"""Who would like to talk to a bot, and who may."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from aiohttp import web

from gateway.access.pairing import Pairing
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.platforms.web.dashboard.request_params import asked, said
from gateway.platforms.web.security import may_act

_TELLING_SECONDS = 5.0
_APPROVED_BY = "dashboard"
_WELCOME = "You may talk to me now."
_OVER = "This request is no longer open."


def routes(house: DashboardContext, frame: PageRenderer) -> list[web.RouteDef]:
    pairing = Pairing(house.people)

    async def gather(request: web.Request) -> dict[str, Any]:
        return {"waiting": await pairing.pending(), "approved": await pairing.approved()}

    async def approve(request: web.Request) -> web.Response:
        platform, user_id = await asked(request, "platform", "user_id")
        paired = await pairing.approve_person(platform, user_id, by=_APPROVED_BY)
        if paired is None:
            return said(_OVER)
        was_told = await _tell(house, platform, user_id)
        untold = "" if was_told else " They could not be told; let them write again."
        return said(f"{_named(paired.name, user_id)} may talk to {platform} now.{untold}")

    async def deny(request: web.Request) -> web.Response:
        platform, user_id = await asked(request, "platform", "user_id")
        return said("Denied." if await pairing.deny_person(platform, user_id) else _OVER)

    async def revoke(request: web.Request) -> web.Response:
        platform, user_id = await asked(request, "platform", "user_id")
        if await pairing.revoke(platform, user_id):
            return said("Revoked: from the next message on they are a stranger again.")
        return said("They were not approved any more.")

    return [
        *frame.page("/dashboard/people", "dashboard/people.html", gather),
        web.post("/api/dashboard/people/approve", approve),
        web.post("/api/dashboard/people/deny", deny),
        web.post("/api/dashboard/people/revoke", revoke),
    ]


async def _tell(house: DashboardContext, platform: str, user_id: str) -> bool:
    """Not for as long as it takes: somebody waits for the answer to a button."""
    bot = house.gateway.bots.get(platform)
    if bot is None or not bot.is_open:
        return False
    try:
        async with asyncio.timeout(_TELLING_SECONDS):
            return await bot.tell(user_id, _WELCOME)
    except TimeoutError:
        return False


def _named(name: str, user_id: str) -> str:
    """What somebody calls themselves may be empty, or an essay."""
    return f"{name} (id {user_id})" if name.strip() else f"The account {user_id}"


_MOST = 100


def parked_routes(house: DashboardContext, frame: PageRenderer) -> list[web.RouteDef]:
    chances = house.gateway.second_chances
    verbs = {
        ("retry", "message"): chances.retry_message,
        ("retry", "reply"): chances.retry_reply,
        ("dismiss", "message"): chances.dismiss_message,
        ("dismiss", "reply"): chances.dismiss_reply,
    }

    async def gather(request: web.Request) -> dict[str, Any]:
        """One more than is shown, to know whether there are more. What people wrote is for the owner's eyes."""
        found = await house.insight.parked(limit=_MOST + 1)
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
