"""The frame around every page: its place in the menu, who looks at it, and how it stays up to date."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiohttp import web
from jinja2 import Environment

from gateway.config.loader import Loaded
from gateway.core.gateway import Gateway
from gateway.observability import Metrics
from gateway.platforms.base import Platform
from gateway.platforms.web.security import may_act
from gateway.platforms.web.sse import EventStreams, frame
from gateway.plugins.engines import BUILT_IN
from gateway.reload import LiveConfig
from gateway.store.ports import Access
from gateway.store.reports import Reports


@dataclass(frozen=True, slots=True)
class DashboardContext:
    """The running Hermes, as its operator sees it."""

    gateway: Gateway
    insight: Reports
    people: Access
    settings: LiveConfig
    model: str
    """Which model answers and why."""
    platforms: Sequence[Platform] = ()
    metrics: Metrics | None = None
    """None where nothing is measured."""

    @property
    def loaded(self) -> Loaded:
        """The configuration as it is now: some of it changes while Hermes runs."""
        return self.settings.loaded

    @property
    def engine(self) -> str:
        """The context engine in use."""
        return BUILT_IN if self.gateway.plugins.unusable_engine else self.loaded.config.context.engine


MENU = {
    "/dashboard": "Overview",
    "/dashboard/conversations": "Conversations",
    "/dashboard/spend": "Spend",
    "/dashboard/people": "People",
    "/dashboard/parked": "Parked",
    "/dashboard/system": "System",
}

_LOOK_AGAIN_SECONDS = 2.0
"""Between two looks at a page that somebody has open. What has not changed is not sent."""

Gather = Callable[[web.Request], Awaitable[dict[str, Any]]]
"""Everything that a template shows, from the store and the running gateway."""

Version = Callable[[web.Request], Awaitable[object]]
"""Something small that differs whenever the page does."""


async def _always_new(request: web.Request) -> object:
    return object()


class _Page(NamedTuple):
    template: str
    gather: Gather
    version: Version


class PageRenderer:
    """Turns a template and what it shows into a page, and into a stream of what has changed on it."""

    def __init__(self, templates: Environment, streams: EventStreams) -> None:
        self._templates = templates
        self._streams = streams

    def page(
        self, path: str, template: str, gather: Gather, version: Version = _always_new
    ) -> list[web.RouteDef]:
        """The page, and beside it the stream that an open page listens to: its parts with an id, when they change.

        Everything between `{% block live %}` and `{% endblock %}` of the template is one such part; a macro that it
        uses has to stand inside it. With a `version`, nothing is gathered again until that has changed."""
        page = _Page(template, gather, version)

        async def show(request: web.Request) -> web.Response:
            query = f"?{request.query_string}" if request.query_string else ""
            shown = {"live": f"{request.path}/live{query}", **await gather(request)}
            return self.answer(request, template, shown)

        async def follow(request: web.Request) -> web.StreamResponse:
            # Before the stream begins: what is wrong with the address can still be said then.
            now, shown = await version(request), await gather(request)
            return await self._streams.send(request, self._changes(request, page, now, shown))

        return [web.get(path, show), web.get(f"{path}/live", follow)]

    def answer(self, request: web.Request, template: str, shown: dict[str, Any]) -> web.Response:
        """A page that does not follow what happens."""
        html = self._templates.get_template(template).render({**_around(request), **shown})
        return web.Response(text=html, content_type="text/html")

    async def _changes(
        self, request: web.Request, page: _Page, seen_version: object, shown: dict[str, Any]
    ) -> AsyncGenerator[bytes, None]:
        template = self._templates.get_template(page.template)
        seen = ""
        while True:
            html = "".join(template.blocks["live"](template.new_context({**_around(request), **shown})))
            if html != seen:
                yield frame({"html": html})
                seen = html
            now = seen_version
            while now == seen_version:
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
                now = await page.version(request)
            seen_version, shown = now, await page.gather(request)


def _around(request: web.Request) -> dict[str, Any]:
    path = request.path.removesuffix("/live")
    return {"menu": MENU, "path": path, "live": "", "may_act": may_act(request)}
