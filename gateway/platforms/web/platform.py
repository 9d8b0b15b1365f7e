"""The web platform: one HTTP server for the chat page, the API and the dashboard."""

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
from gateway.platforms.clients import REQUEST_SECONDS, listen, read_body_first
from gateway.platforms.web.api import Api
from gateway.platforms.web.dashboard import Dashboard, DashboardContext
from gateway.platforms.web.error_middleware import error_middleware
from gateway.platforms.web.monitoring import Monitoring, status_routes
from gateway.platforms.web.owner_conversations import OwnerConversations
from gateway.platforms.web.pages import STATIC, Pages
from gateway.platforms.web.renderer import HtmlRenderer
from gateway.platforms.web.security import (
    TokenAuth,
    add_security_headers,
    is_publicly_reachable,
    same_origin_middleware,
)
from gateway.platforms.web.sse import EventStreams

log = structlog.get_logger(__name__)

_BODY_LIMIT = 1024 * 1024
"""Fits the longest message even if its JSON escapes every character."""

_SHUTDOWN_SECONDS = 2.0
"""Time for running requests to finish; event streams end at once."""


class WebPlatform:
    """Serves the chat page, the API and the dashboard."""

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
        context: DashboardContext | None = None,
    ) -> None:
        """`platforms` are all platforms of this process, for `/healthz`. Without `metrics` there is no `/metrics`,
        without a `context` no dashboard."""
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
        self._context = context
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
        """Duplicates of the listening sockets; the watchdog uses and closes them."""
        sockets = self._listening.sockets if self._listening else ()
        copies = [socket.socket(fileno=os.dup(each.fileno())) for each in sockets]
        for copy in copies:
            copy.setblocking(False)
        return copies

    async def start(self) -> None:
        # In a thread: it reads the templates.
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
        # Check the sockets, not the settings: a host name can mean any address.
        addresses = [each.getsockname() for each in listening.sockets]
        if self._token is None and is_publicly_reachable(addresses):
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
        renderer = HtmlRenderer(
            self._model_line, has_dashboard=self._context is not None, has_token=has_token
        )
        conversations = OwnerConversations(self._gateway)
        streams = EventStreams(self._heartbeat_seconds, write_seconds=self._request_seconds)

        def port() -> int:
            """Return the real port, which is known only once the server listens on port 0."""
            return self._port

        auth = TokenAuth(
            self._token,
            port,
            self._gateway.store.access,
            read_token=self._read_token,
            request_seconds=self._request_seconds,
        )
        app = web.Application(
            client_max_size=_BODY_LIMIT,
            middlewares=[
                error_middleware(renderer),
                same_origin_middleware(self._host, port),
                auth.middleware,
                # After the token check, so that no stranger's body is kept in memory.
                read_body_first(self._request_seconds),
            ],
        )
        app.add_routes(Api(self._gateway, conversations, streams).routes())
        app.add_routes(Monitoring(self._gateway, self._platforms, self._metrics).routes())
        app.add_routes(Pages(self._gateway, conversations, streams, renderer).routes())
        if self._context:
            app.add_routes(Dashboard(self._context, streams, has_token=has_token).routes())
            app.add_routes(status_routes(self._context))
        app.router.add_static("/static", STATIC)
        app.on_response_prepare.append(add_security_headers)
        app.on_startup.append(auth.load)
        app.on_shutdown.append(streams.close)
        return app
