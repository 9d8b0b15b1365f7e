"""The dashboard: which pages there are."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from gateway.platforms.web.dashboard import (
    context,
    conversation,
    conversation_actions,
    conversations,
    overview,
    parked,
    people,
    spend,
    splits,
    system,
)
from gateway.platforms.web.dashboard.frame import Frame
from gateway.platforms.web.dashboard.house import House
from gateway.platforms.web.sse import EventStreams
from gateway.platforms.web.templating import templates


class Dashboard:
    """Its templates are read when it is made: make it where file work may happen."""

    def __init__(self, house: House, streams: EventStreams, *, has_token: bool = False) -> None:
        self._house = house
        self._frame = Frame(templates(has_token=has_token), streams)

    def routes(self) -> Iterable[web.RouteDef]:
        pages = (
            overview,
            conversations,
            conversation,
            conversation_actions,
            context,
            splits,
            spend,
            people,
            parked,
            system,
        )
        return [route for page in pages for route in page.routes(self._house, self._frame)]
