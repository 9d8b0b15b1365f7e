"""The web chat as a platform: one HTTP server inside the running event loop."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Sequence

import structlog
from aiohttp import web

from gateway.config.schema_platforms import local_url
from gateway.core.gateway import Gateway
from gateway.errors import CannotListen, OpenWithoutToken, PortTaken
from gateway.observability import Metrics
from gateway.platforms.base import Health, Platform
from gateway.platforms.clients import REQUEST_SECONDS, body_in_time, listen
from gateway.platforms.web import monitoring as status
from gateway.platforms.web.api import Api
from gateway.platforms.web.dashboard import Dashboard, DashboardContext
from gateway.platforms.web.error_middleware import problems_as_sentences
from gateway.platforms.web.monitoring import Operations
from gateway.platforms.web.owner_conversations import OwnerConversations
from gateway.platforms.web.pages import STATIC, Pages
from gateway.platforms.web.renderer import HtmlRenderer
from gateway.platforms.web.security import (
    TokenGate,
    add_security_headers,
    is_open_to_others,
    only_our_own_requests,
)
from gateway.platforms.web.sse import EventStreams

log = structlog.get_logger(__name__)

_BODY_LIMIT = 1024 * 1024
"""Room for the longest message even when its JSON escapes every character."""

_SHUTDOWN_SECONDS = 2.0
"""What a request in flight gets to finish; event streams are ended at once."""


class WebPlatform:
    """Serves the chat page and the API."""

    name = "web"

    def __init__(
        self,
        gateway: Gateway,
        *,
        host: str,
        port: int,
        token: str | None,
        read_token: str | None = None,
        model_line: str = "",
        heartbeat_seconds: float = 15.0,
        request_seconds: float = REQUEST_SECONDS,
        platforms: Sequence[Platform] = (),
        metrics: Metrics | None = None,
        house: DashboardContext | None = None,
    ) -> None:
        """`platforms` are all that run in this process; `/healthz` tells about each. Without `metrics` there is no
        `/metrics`, without a `house` no dashboard."""
        self._metrics = metrics
        self._gateway = gateway
        self._host = host
        self._port = port
        self._token = token
        self._read_token = read_token
        self._model_line = model_line
        self._heartbeat_seconds = heartbeat_seconds
        self._request_seconds = request_seconds
        self._platforms = platforms
        self._house = house
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None

    @property
    def where(self) -> str:
        return local_url(self._host, self._port)

    @property
    def health(self) -> Health:
        return Health("up" if self._runner else "starting")

    @property
    def sockets(self) -> list[socket.socket]:
        """Copies of those that it listens on, for the watchdog to close."""
        sockets = self._listening.sockets if self._listening else ()
        copies = [socket.socket(fileno=os.dup(each.fileno())) for each in sockets]
        for copy in copies:
            copy.setblocking(False)
        return copies

    async def start(self) -> None:
        # It reads the templates, and file work must not happen on the event loop.
        app = await asyncio.to_thread(self._app)
        try:
            runner, listening = await listen(
                app,
                self._host,
                self._port,
                request_seconds=self._request_seconds,
                shutdown_seconds=_SHUTDOWN_SECONDS,
            )
        except OSError as exc:
            detail = f"({self._host}, port {self._port})"
            if exc.errno == errno.EADDRINUSE:
                raise PortTaken(detail) from exc
            raise CannotListen(f"{detail} {exc.strerror or exc}") from exc
        # The sockets tell: a name could mean any address, and settings may not have come through their check.
        addresses = [each.getsockname() for each in listening.sockets]
        if self._token is None and is_open_to_others(addresses):
            listening.close()
            await runner.cleanup()
            raise OpenWithoutToken(f"({self._host})")
        self._runner, self._listening = runner, listening
        self._port = addresses[0][1]
        log.info("web.started", where=self.where)

    async def stop(self) -> None:
        if self._runner is not None and self._listening is not None:
            self._listening.close()
            await self._runner.cleanup()
            self._runner = self._listening = None
            log.info("web.stopped")

    def _app(self) -> web.Application:
        has_token = self._token is not None
        views = HtmlRenderer(self._model_line, has_dashboard=self._house is not None, has_token=has_token)
        desk = OwnerConversations(self._gateway)
        streams = EventStreams(self._heartbeat_seconds, write_seconds=self._request_seconds)

        def port() -> int:
            """Asked for at each request: with port 0 it is known only once the server listens."""
            return self._port

        gate = TokenGate(
            self._token,
            port,
            self._gateway.store.access,
            read_token=self._read_token,
            request_seconds=self._request_seconds,
        )
        app = web.Application(
            client_max_size=_BODY_LIMIT,
            middlewares=[
                problems_as_sentences(views),
                only_our_own_requests(self._host, port),
                gate.middleware,
                # After the gate: no body of a stranger is kept in memory.
                body_in_time(self._request_seconds),
            ],
        )
        app.add_routes(Api(self._gateway, desk, streams).routes())
        app.add_routes(Operations(self._gateway, self._platforms, self._metrics).routes())
        app.add_routes(Pages(self._gateway, desk, streams, views).routes())
        if self._house:
            app.add_routes(Dashboard(self._house, streams, has_token=has_token).routes())
            app.add_routes(status.routes(self._house))
        app.router.add_static("/static", STATIC)
        app.on_response_prepare.append(add_security_headers)
        app.on_startup.append(gate.load)
        app.on_shutdown.append(streams.close)
        return app
