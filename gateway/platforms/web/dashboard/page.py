"""Rendering of dashboard pages: the parts of Hermes they show, the menu and the live updates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from jinja2 import Environment

from gateway.config.loader import LoadedConfig
from gateway.core.gateway import Gateway
from gateway.observability.metrics import Metrics
from gateway.platforms.base import Platform
from gateway.platforms.web.dashboard.transcript import TranscriptRenderer
from gateway.platforms.web.renderer import HtmlRenderer
from gateway.platforms.web.security import is_owner
from gateway.platforms.web.sse import EventStreams, frame
from gateway.plugins.engines import BUILT_IN
from gateway.reload import LiveConfig
from gateway.store.reports import Reports


@dataclass(frozen=True, slots=True)
class DashboardContext:
    """The parts of the running Hermes that the dashboard shows."""

    gateway: Gateway
    settings: LiveConfig
    model: str
    """Names the model that answers and why it was chosen."""
    platforms: Sequence[Platform]
    metrics: Metrics

    @property
    def reports(self) -> Reports:
        return self.gateway.store.reports

    @property
    def loaded(self) -> LoadedConfig:
        """The current configuration, which may change while Hermes runs."""
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

_POLL_SECONDS = 2.0
"""Interval between two checks of an open page; only changes are sent."""

Gather = Callable[[web.Request], Awaitable[dict[str, Any]]]
"""Collects the template variables from the store and the running gateway."""

Version = Callable[[web.Request], Awaitable[object]]
"""Returns a small value that differs whenever the page does."""


async def _always_new(request: web.Request) -> object:
    return object()


class PageRenderer:
    """Renders a template as a page, and as a stream of its changes."""

    def __init__(self, templates: Environment, streams: EventStreams) -> None:
        self._templates = templates
        self._streams = streams
        self.transcripts = TranscriptRenderer(HtmlRenderer(templates))

    def live(
        self, path: str, template: str, gather: Gather, version: Version = _always_new
    ) -> list[web.RouteDef]:
        """Build the routes of a page and of the event stream that keeps the open page up to date.

        The stream sends the block `live` of the template when it changes; macros that the block uses must be imported
        inside it. With a `version`, the variables are gathered again only after the version has changed."""

        async def show(request: web.Request) -> web.Response:
            query = f"?{request.query_string}" if request.query_string else ""
            variables = {"live": f"{request.path}/live{query}", **await gather(request)}
            return self.render(request, template, variables)

        async def follow(request: web.Request) -> web.StreamResponse:
            # Gather before the stream starts, while an error can still set the status.
            now, variables = await version(request), await gather(request)
            return await self._streams.send(request, changes(request, now, variables))

        async def changes(
            request: web.Request, sent_version: object, variables: dict[str, Any]
        ) -> AsyncGenerator[bytes, None]:
            block = self._templates.get_template(template)
            sent_html = ""
            while True:
                values = block.new_context({**_base_context(request), **variables})
                html = "".join(block.blocks["live"](values))
                if html != sent_html:
                    yield frame({"html": html})
                    sent_html = html
                now = sent_version
                while now == sent_version:
                    await asyncio.sleep(_POLL_SECONDS)
                    now = await version(request)
                sent_version, variables = now, await gather(request)

        return [web.get(path, show), web.get(f"{path}/live", follow)]

    def render(self, request: web.Request, template: str, variables: dict[str, Any]) -> web.Response:
        """Render a page without live updates."""
        html = self._templates.get_template(template).render({**_base_context(request), **variables})
        return web.Response(text=html, content_type="text/html")


def _base_context(request: web.Request) -> dict[str, Any]:
    path = request.path.removesuffix("/live")
    return {"menu": MENU, "path": path, "live": "", "is_owner": is_owner(request)}
