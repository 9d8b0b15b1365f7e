"""The dashboard: which pages there are."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from gateway.platforms.web.dashboard import (
    compaction,
    context,
    conversation,
    conversations,
    overview,
    people,
    spend,
    system,
)
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.platforms.web.sse import EventStreams
from gateway.platforms.web.templating import templates


class Dashboard:
    """Its templates are read when it is made: make it where file work may happen."""

    def __init__(self, house: DashboardContext, streams: EventStreams, *, has_token: bool = False) -> None:
        self._house = house
        self._frame = PageRenderer(templates(has_token=has_token), streams)

    def routes(self) -> Iterable[web.RouteDef]:
        pages = (
            overview.routes,
            conversations.routes,
            conversation.routes,
            conversation.action_routes,
            context.routes,
            compaction.routes,
            spend.routes,
            people.routes,
            people.parked_routes,
            system.routes,
        )
        return [route for routes in pages for route in routes(self._house, self._frame)]
