"""The dashboard: which pages there are."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from gateway.platforms.web.dashboard import overview
from gateway.platforms.web.dashboard.frame import Frame
from gateway.platforms.web.dashboard.house import House
from gateway.platforms.web.sse import EventStreams
from gateway.platforms.web.templating import templates


class Dashboard:
    """Its templates are read when it is made: make it where file work may happen."""

    def __init__(self, house: House, streams: EventStreams) -> None:
        self._house = house
        self._frame = Frame(templates(), streams)

    def routes(self) -> Iterable[web.RouteDef]:
        return [*overview.routes(self._house, self._frame)]
