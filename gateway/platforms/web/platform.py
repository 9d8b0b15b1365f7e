"""The web platform: one HTTP server for the chat page, the API and the dashboard."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from pathlib import Path

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from agent.errors import HermesError, NotFound
from gateway.config.schema_platforms import local_url
from gateway.errors import CannotListen, OpenWithoutToken, PortTaken
from gateway.platforms.base import Health
from gateway.platforms.clients import REQUEST_SECONDS, listen, read_body_first
from gateway.platforms.web.api import Api
from gateway.platforms.web.chat_page import ChatPage
from gateway.platforms.web.dashboard import dashboard_routes
from gateway.platforms.web.dashboard.page import DashboardContext
from gateway.platforms.web.monitoring import Monitoring
from gateway.platforms.web.owner_conversations import OwnerConversations
from gateway.platforms.web.renderer import HtmlRenderer
from gateway.platforms.web.security import (
    TokenAuth,
    add_security_headers,
    is_owner,
    is_publicly_reachable,
    same_origin_middleware,
)
from gateway.platforms.web.sse import EventStreams
from gateway.platforms.web.templating import templates

log = structlog.get_logger(__name__)

_STATIC = Path(__file__).parent / "static"

_BODY_LIMIT = 1024 * 1024
"""Fits the longest message even if its JSON escapes every character."""

_SHUTDOWN_SECONDS = 2.0
"""Time for running requests to finish; event streams end at once."""

_SENTENCES = {
    404: "Not found: the address is wrong, or it belongs to an earlier installation.",
    405: "This address does not accept that kind of request.",
    413: "The request is too large; a message may have 100 kB.",
}


class WebPlatform:
    """Serves the chat page, the API and the dashboard."""

    name = "web"

    def __init__(
        self,
        context: DashboardContext,
        *,
        host: str,
        port: int,
        token: str | None,
        read_token: str | None = None,
        model_line: str = "",
        heartbeat_seconds: float = 15.0,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._context = context
        self._host = host
        self._port = port
        self._token = token
        self._read_token = read_token
        self._model_line = model_line
        self._heartbeat_seconds = heartbeat_seconds
        self._request_seconds = request_seconds
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
        gateway = self._context.gateway
        environment = templates(model_line=self._model_line, has_token=self._token is not None)
        renderer = HtmlRenderer(environment)
        conversations = OwnerConversations(gateway)
        streams = EventStreams(self._heartbeat_seconds, write_seconds=self._request_seconds)

        def port() -> int:
            """Return the real port, which is known only once the server listens on port 0."""
            return self._port

        auth = TokenAuth(
            self._token,
            port,
            gateway.store.access,
            read_token=self._read_token,
            request_seconds=self._request_seconds,
        )
        app = web.Application(
            client_max_size=_BODY_LIMIT,
            middlewares=[
                _error_middleware(renderer),
                same_origin_middleware(self._host, port),
                auth.middleware,
                # After the token check, so that no stranger's body is kept in memory.
                read_body_first(self._request_seconds),
            ],
        )
        app.add_routes(Api(gateway, conversations, streams).routes())
        app.add_routes(Monitoring(self._context).routes())
        app.add_routes(ChatPage(gateway, conversations, streams, renderer).routes())
        app.add_routes(dashboard_routes(self._context, environment, streams))
        app.router.add_static("/static", _STATIC)
        app.on_response_prepare.append(add_security_headers)
        app.on_startup.append(auth.load)
        app.on_shutdown.append(streams.close)
        return app


def _error_middleware(renderer: HtmlRenderer) -> Middleware:
    """Answer expected errors with a sentence; the server logs any other exception and answers 500."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except NotFound:
            return _error_response(renderer, request, 404, _SENTENCES[404])
        except HermesError as error:
            log.warning("web.request_failed", path=request.path, error=type(error).__name__)
            return _error_response(renderer, request, 503, str(error))
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return _error_response(renderer, request, error.status, _sentence(error))

    return middleware


def _sentence(error: web.HTTPException) -> str:
    """Return the sentence of the error; an error of aiohttp has only a number and a phrase."""
    text = error.text or ""
    if text.startswith(f"{error.status}: ") or error.status == 413:
        return _SENTENCES.get(error.status, f"The request was refused: {error.reason}.")
    return text


def _error_response(renderer: HtmlRenderer, request: web.Request, status: int, sentence: str) -> web.Response:
    """Answer programs with JSON and people with a page."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if request.path.startswith("/api/") or request.path in ("/healthz", "/readyz", "/metrics"):
        return web.json_response({"error": sentence}, status=status, headers=headers)
    is_reader = not is_owner(request)
    html = renderer.error_page(
        sentence,
        asks_for_token=status == 401 or (is_reader and status == 403),
        is_reader=is_reader,
        is_wrong_token=status == 401 and request.method == "POST",
    )
    return web.Response(text=html, content_type="text/html", status=status, headers=headers)
