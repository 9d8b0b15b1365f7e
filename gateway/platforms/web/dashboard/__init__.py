"""The dashboard: pages for the operator, rendered by the server and kept up to date by a script."""

from __future__ import annotations

from aiohttp import web
from jinja2 import Environment

from gateway.platforms.web.dashboard import (
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

_PAGES = (overview, conversations, conversation, context_window, spend, people, parked, system)


def dashboard_routes(
    context: DashboardContext, templates: Environment, streams: EventStreams
) -> list[web.RouteDef]:
    page = PageRenderer(templates, streams)
    return [route for module in _PAGES for route in module.routes(context, page)]
