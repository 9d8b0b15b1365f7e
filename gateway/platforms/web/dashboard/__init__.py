"""The dashboard: pages for the operator, rendered by the server and kept up to date by a script."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from gateway.platforms.web.dashboard import (
    compaction,
    context_window,
    conversation,
    conversations,
    overview,
    parked,
    people,
    spend,
    system,
)
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.platforms.web.sse import EventStreams
from gateway.platforms.web.templating import templates

__all__ = ["Dashboard", "DashboardContext"]


class Dashboard:
    """Routes of all pages. The constructor reads the templates, so it does not run on the event loop."""

    def __init__(self, context: DashboardContext, streams: EventStreams, *, has_token: bool = False) -> None:
        self._context = context
        self._page = PageRenderer(templates(has_token=has_token), streams)

    def routes(self) -> Iterable[web.RouteDef]:
        pages = (
            overview.routes,
            conversations.routes,
            conversation.routes,
            conversation.action_routes,
            context_window.routes,
            compaction.routes,
            spend.routes,
            people.routes,
            parked.routes,
            system.routes,
        )
        return [route for routes in pages for route in routes(self._context, self._page)]
