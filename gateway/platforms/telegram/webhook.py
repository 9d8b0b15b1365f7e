"""Telegram calls us: a small server behind the operator's reverse proxy, which takes only what Telegram signed."""

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
from gateway.platforms.clients import REQUEST_SECONDS, listen, read_in_time
from gateway.platforms.telegram.errors import WebhookNotHeard, WebhookReplaced
from gateway.platforms.telegram.updates import ALLOWED_UPDATES, UNREADABLE, Intake, readable

log = structlog.get_logger(__name__)

_SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105 - a header's name
_LARGEST_BODY = 2**20
_ONE_AT_A_TIME = 1
"""So that updates come in order; taking one in is quick."""
_SHARE = 8
"""One of so many descriptors is for this server; few connections are enough."""
_NOT_REACHED = "Telegram does not get through to `webhook.url`; check the proxy and its certificate"


class Webhook:
    def __init__(
        self,
        settings: WebhookConfig,
        lost: Callable[[str], None],
        *,
        check_seconds: float,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        """`lost` is told what keeps Telegram from calling, for as long as that lasts."""
        assert settings.url is not None and settings.secret is not None
        self._settings = settings
        self._lost = lost
        self._url = settings.url
        self._secret = settings.secret.get_secret_value()
        self._check_seconds = check_seconds
        self._request_seconds = request_seconds
        self._last_error: datetime | None = None
        self._is_reached = True

    async def run(self, bot: Bot, intake: Intake, up: Callable[[], None]) -> None:
        async with self._listening(bot, intake):
            # Stays set when Hermes stops: Telegram keeps what comes meanwhile and calls again.
            await bot.set_webhook(
                self._url,
                secret_token=self._secret,
                allowed_updates=ALLOWED_UPDATES,
                max_connections=_ONE_AT_A_TIME,
            )
            up()
            while True:
                await asyncio.sleep(self._check_seconds)
                await self._check(bot, up)

    async def _check(self, bot: Bot, up: Callable[[], None]) -> None:
        """Nobody tells us that calls do not arrive; Telegram knows."""
        info = await bot.get_webhook_info()
        if info.url != self._url:
            raise WebhookReplaced
        # The last error is told for ever, and between its tries Telegram pauses longer and longer.
        is_new = info.last_error_date not in (None, self._last_error)
        self._last_error = info.last_error_date
        self._is_reached = not info.pending_update_count or (self._is_reached and not is_new)
        if self._is_reached:
            up()
            return
        self._lost(f"{_NOT_REACHED}: {info.last_error_message}.")
        if is_new:
            waiting, detail = info.pending_update_count, info.last_error_message
            log.warning("telegram.webhook_not_reached", waiting=waiting, detail=detail)

    @asynccontextmanager
    async def _listening(self, bot: Bot, intake: Intake) -> AsyncIterator[None]:
        async def take(request: web.Request) -> web.Response:
            self._admit(request)
            body = await read_in_time(request, self._request_seconds)
            try:
                await intake.take([_update(body, bot)])
            except StoreError:
                raise web.HTTPServiceUnavailable from None  # Telegram calls again
            return web.Response()

        app = web.Application(client_max_size=_LARGEST_BODY)
        # Any path: a reverse proxy may cut off a part of it, and it is the secret that guards.
        app.router.add_post("/{path:.*}", take)
        try:
            runner, server = await listen(
                app,
                self._settings.host,
                self._settings.port,
                request_seconds=self._request_seconds,
                shutdown_seconds=1.0,
                share=_SHARE,
            )
        except OSError as error:
            raise WebhookNotHeard(error.strerror or "") from error
        try:
            yield
        finally:
            server.close()
            await runner.cleanup()

    def _admit(self, request: web.Request) -> None:
        """Before a byte of the body is read, and without a word about what is wrong."""
        given = request.headers.get(_SECRET_HEADER, "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self._secret.encode()):
            raise web.HTTPUnauthorized
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType


def _update(body: bytes, bot: Bot) -> Update:
    try:
        update = json.loads(body)
        return Update.de_json(readable(update), bot)
    except (*UNREADABLE, RecursionError):
        # Not even a number to confirm it by.
        log.warning("telegram.webhook_unreadable")
        raise web.HTTPBadRequest from None
