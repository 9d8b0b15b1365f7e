"""Webhook server behind the operator's reverse proxy; it accepts only calls with Telegram's secret."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime

import structlog
from aiohttp import web
from telegram import Bot, Update

from agent.errors import StoreError
from gateway.config.schema_platforms import WebhookConfig
from gateway.platforms.clients import REQUEST_SECONDS, listen, read_body
from gateway.platforms.telegram.errors import WebhookPortUnavailable, WebhookReplaced
from gateway.platforms.telegram.updates import ALLOWED_UPDATES, UNREADABLE, UpdateReceiver, readable_update

log = structlog.get_logger(__name__)

_SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105 - a header's name
_MAX_BODY = 2**20
_MAX_CONNECTIONS = 1
"""One connection keeps updates in order; receiving one is quick."""
_DESCRIPTOR_SHARE = 8
"""This server uses one of eight file descriptors; it needs few connections."""
_UNREACHABLE = "Telegram cannot reach `webhook.url`; check the proxy and its certificate"


class WebhookServer:
    def __init__(
        self,
        settings: WebhookConfig,
        mark_down: Callable[[str], None],
        *,
        check_seconds: float,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        """`mark_down` is called with the reason while Telegram cannot reach the server."""
        assert settings.url is not None and settings.secret is not None
        self._settings = settings
        self._mark_down = mark_down
        self._url = settings.url
        self._secret = settings.secret.get_secret_value()
        self._check_seconds = check_seconds
        self._request_seconds = request_seconds
        self._last_error: datetime | None = None
        self._is_reachable = True

    async def run(self, bot: Bot, update_receiver: UpdateReceiver, up: Callable[[], None]) -> None:
        async with self._listening(bot, update_receiver):
            # The webhook stays set when Hermes stops: Telegram keeps updates and calls again.
            await bot.set_webhook(
                self._url,
                secret_token=self._secret,
                allowed_updates=ALLOWED_UPDATES,
                max_connections=_MAX_CONNECTIONS,
            )
            up()
            while True:
                await asyncio.sleep(self._check_seconds)
                await self._check(bot, up)

    async def _check(self, bot: Bot, up: Callable[[], None]) -> None:
        """Ask Telegram whether its calls arrive."""
        info = await bot.get_webhook_info()
        if info.url != self._url:
            raise WebhookReplaced
        # Telegram reports its last error forever, and waits longer between its attempts.
        is_new = info.last_error_date not in (None, self._last_error)
        self._last_error = info.last_error_date
        self._is_reachable = not info.pending_update_count or (self._is_reachable and not is_new)
        if self._is_reachable:
            up()
            return
        self._mark_down(f"{_UNREACHABLE}: {info.last_error_message}.")
        if is_new:
            waiting, detail = info.pending_update_count, info.last_error_message
            log.warning("telegram.webhook_not_reached", waiting=waiting, detail=detail)

    @asynccontextmanager
    async def _listening(self, bot: Bot, update_receiver: UpdateReceiver) -> AsyncIterator[None]:
        async def receive(request: web.Request) -> web.Response:
            self._authenticate(request)
            body = await read_body(request, self._request_seconds)
            try:
                await update_receiver.receive([_parse_update(body, bot)])
            except StoreError:
                raise web.HTTPServiceUnavailable from None  # Telegram calls again
            return web.Response()

        app = web.Application(client_max_size=_MAX_BODY)
        # Any path: a reverse proxy may remove a part of it, and the secret protects the server.
        app.router.add_post("/{path:.*}", receive)
        try:
            runner, server = await listen(
                app,
                self._settings.host,
                self._settings.port,
                request_seconds=self._request_seconds,
                shutdown_seconds=1.0,
                share=_DESCRIPTOR_SHARE,
            )
        except OSError as error:
            raise WebhookPortUnavailable(error.strerror or "") from error
        try:
            yield
        finally:
            server.close()
            await runner.cleanup()

    def _authenticate(self, request: web.Request) -> None:
        """Check the secret before the body is read. The response does not say what is wrong."""
        given = request.headers.get(_SECRET_HEADER, "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self._secret.encode()):
            raise web.HTTPUnauthorized
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType


def _parse_update(body: bytes, bot: Bot) -> Update:
    try:
        update = json.loads(body)
        return Update.de_json(readable_update(update), bot)
    except (*UNREADABLE, RecursionError):
        # Without an id, it cannot be confirmed.
        log.warning("telegram.webhook_unreadable")
        raise web.HTTPBadRequest from None
