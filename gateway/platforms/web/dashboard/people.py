"""The page People: pairing requests and approved people."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from gateway.access import Pairing
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.platforms.web.request_params import required_strings, result_response

_NOTIFY_SECONDS = 5.0
_CLOSED = "This request is no longer open."


def routes(context: DashboardContext, page: PageRenderer) -> list[web.RouteDef]:
    pairing = Pairing(context.gateway.store.access)

    async def gather(request: web.Request) -> dict[str, Any]:
        return {"waiting": await pairing.pending(), "approved": await pairing.approved()}

    async def approve(request: web.Request) -> web.Response:
        platform, user_id = await required_strings(request, "platform", "user_id")
        paired = await pairing.approve_person(platform, user_id, by="dashboard")
        if paired is None:
            return result_response(_CLOSED)
        is_notified = await _notify(context, platform, user_id)
        hint = "" if is_notified else " Hermes could not notify them; ask them to write again."
        person = f"{paired.name} (id {user_id})" if paired.name.strip() else f"The account {user_id}"
        return result_response(f"{person} can talk to {platform} now.{hint}")

    async def deny(request: web.Request) -> web.Response:
        platform, user_id = await required_strings(request, "platform", "user_id")
        return result_response("Denied." if await pairing.deny_person(platform, user_id) else _CLOSED)

    async def revoke(request: web.Request) -> web.Response:
        platform, user_id = await required_strings(request, "platform", "user_id")
        if await pairing.revoke(platform, user_id):
            return result_response("Revoked: Hermes no longer answers this person.")
        return result_response("This person was not approved any more.")

    return [
        *page.live("/dashboard/people", "dashboard/people.html", gather),
        web.post("/api/dashboard/people/approve", approve),
        web.post("/api/dashboard/people/deny", deny),
        web.post("/api/dashboard/people/revoke", revoke),
    ]


async def _notify(context: DashboardContext, platform: str, user_id: str) -> bool:
    """Tell a person that they are approved, within a few seconds: the operator waits for the button."""
    bot = context.gateway.bots.get(platform)
    if bot is None or not bot.is_open:
        return False
    try:
        async with asyncio.timeout(_NOTIFY_SECONDS):
            return await bot.send_notice(user_id, "You may talk to me now.")
    except TimeoutError:
        return False
