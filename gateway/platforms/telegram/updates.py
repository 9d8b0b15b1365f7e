"""Inbound updates, by polling or by webhook: in order within a chat, and chats independent of each other.

Telegram repeats an update whose confirmation was lost. The receiver deduplicates messages by id, ignores an edit that
changes nothing, and decides an approval once.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from itertools import starmap
from typing import Any

import structlog
from aiohttp import web
from telegram import Bot, CallbackQuery, Update
from telegram.error import Conflict, TelegramError

from agent.aio import finish_despite_cancel, keyed_lock
from agent.errors import StoreError
from gateway.chat.adapter import InboundHandler
from gateway.chat.keyed_queue import KeyedQueue
from gateway.config.schema_platforms import WebhookConfig
from gateway.core.retry import guarded
from gateway.platforms.clients import REQUEST_SECONDS, listen, read_body
from gateway.platforms.telegram.errors import (
    PollTimedOut,
    WebhookPortUnavailable,
    WebhookReplaced,
    delivery_error,
)
from gateway.platforms.telegram.message_reader import TelegramReader
from gateway.text.unicode import prefix_length, utf16_length

log = structlog.get_logger(__name__)

UNREADABLE = (TypeError, KeyError, ValueError, AttributeError, IndexError, OverflowError, OSError)
"""Raised by the library for unexpected data; the last two for dates out of range."""

ALLOWED_UPDATES = ("message", "edited_message", "callback_query", "my_chat_member")


def readable_update(update: dict[str, Any]) -> dict[str, Any]:
    """Return the update, or an empty one with the same id if the library cannot parse it."""
    try:
        Update.de_json(update, None)
    except UNREADABLE as error:
        number = update["update_id"]
        log.warning("telegram.update_unreadable", update_id=number, error=type(error).__name__)
        return {"update_id": number}
    return update


_CONFIRM_SECONDS = 2.0


class UpdatePoller:
    """Long polling. Keeps the offset, and whether another program polls too, across connections."""

    def __init__(self, *, seconds: int, margin: float) -> None:
        self._seconds = seconds
        self._margin = margin
        self._offset = 0
        self._has_conflict = False

    async def run(self, bot: Bot, update_receiver: UpdateReceiver, up: Callable[[], None]) -> None:
        # Keep pending updates: removing a webhook must not lose a message.
        await bot.delete_webhook()
        try:
            await self._poll(bot, update_receiver, up)
        except Conflict:
            self._has_conflict = True
            raise
        except asyncio.CancelledError:
            await self._confirm(bot)
            raise

    async def _poll(self, bot: Bot, update_receiver: UpdateReceiver, up: Callable[[], None]) -> None:
        seconds = 0  # the first request only shows that polling works
        while True:
            try:
                async with asyncio.timeout(seconds + self._margin):
                    updates = await bot.get_updates(
                        offset=self._offset, timeout=seconds, allowed_updates=ALLOWED_UPDATES
                    )
            except TimeoutError:
                raise PollTimedOut from None
            # With two pollers, a short poll succeeds, and a long one is ended by the other poller.
            if seconds or not self._has_conflict:
                self._has_conflict = False
                up()
            # Confirm only after all are stored: after a failure Telegram delivers them again.
            await update_receiver.receive(updates)
            self._offset = max([self._offset, *(update.update_id + 1 for update in updates)])
            seconds = self._seconds

    async def _confirm(self, bot: Bot) -> None:
        """Confirm the last updates, so that the next start does not receive them again."""
        if self._offset:
            with suppress(TelegramError, TimeoutError):
                async with asyncio.timeout(_CONFIRM_SECONDS):
                    await bot.get_updates(offset=self._offset, limit=1, timeout=0)


_MAX_PRESS_ANSWER = 200
"""Longest answer to a press, in UTF-16 units."""


class UpdateReceiver:
    def __init__(self, receiver: InboundHandler, reader: TelegramReader, queue: KeyedQueue) -> None:
        self._receiver = receiver
        self._reader = reader
        self._queue = queue

    async def receive(self, updates: Sequence[Update]) -> None:
        """Store the updates, so that they may be confirmed to Telegram.

        Raises StoreError if one of them is not stored: then all must come again. Unreadable updates are skipped.
        """
        by_chat: defaultdict[int, list[Update]] = defaultdict(list)
        for update in updates:
            try:
                if message := update.message or update.edited_message:
                    by_chat[message.chat_id].append(update)
                else:
                    self._handle_other(update)
            except (AttributeError, TypeError) as error:
                # The library accepts a message without a chat.
                number, name = update.update_id, type(error).__name__
                log.warning("telegram.update_unusable", update_id=number, error=name)
        # A message that is being stored must also be queued: Telegram's next delivery of it is ignored.
        await finish_despite_cancel(self._receive_chats(by_chat))

    async def _receive_chats(self, by_chat: Mapping[int, Sequence[Update]]) -> None:
        # Wait for all chats before raising, so that a retry does not overlap with this attempt.
        outcomes = await asyncio.gather(*starmap(self._receive_chat, by_chat.items()), return_exceptions=True)
        for error in filter(None, outcomes):
            raise error

    async def _receive_chat(self, chat_id: int, updates: Sequence[Update]) -> None:
        """Store the messages of a chat in order; after a StoreError, skip the rest."""
        async with keyed_lock(f"telegram updates {chat_id}"):
            for update in updates:
                await guarded(
                    partial(self._receive_message, update), "chat.message_failed", passes=(StoreError,)
                )

    async def _receive_message(self, update: Update) -> None:
        message, edited = update.message, update.edited_message
        if message is not None:
            if message.migrate_to_chat_id is not None:
                log.warning("telegram.group_moved", old=message.chat_id, new=message.migrate_to_chat_id)
            if read := self._reader.message(message):
                await self._receiver.message(read)
        # A live location edits its message with every move.
        elif edited is not None and edited.location is None and (read := self._reader.message(edited)):
            await self._receiver.edited(read)

    def _handle_other(self, update: Update) -> None:
        """Handle updates that need not be stored: presses, and changes of the bot's membership."""
        if update.callback_query is not None:
            # Not behind the messages of its chat: they may wait for this press.
            query = update.callback_query
            self._queue.put(("press", query.from_user.id), partial(self._pressed, query))
        elif update.my_chat_member is not None:
            change = update.my_chat_member
            log.info("telegram.membership", chat=change.chat.id, status=change.new_chat_member.status)

    async def _pressed(self, query: CallbackQuery) -> None:
        """Answer every press, also after an error: until then the button shows a spinner."""
        answer = "That did not work."
        try:
            press = self._reader.press(query)
            answer = await self._receiver.pressed(press) if press else "This button no longer does anything."
        finally:
            await _answer_press(query, answer)


async def _answer_press(query: CallbackQuery, answer: str) -> None:
    if utf16_length(answer) > _MAX_PRESS_ANSWER:
        answer = answer[: prefix_length(answer, _MAX_PRESS_ANSWER - 1, utf16_length)] + "…"
    try:
        await query.answer(answer or None)
    except TelegramError as error:
        # Too late for the spinner; the press itself took effect.
        log.info("telegram.press_not_answered", detail=str(delivery_error(error)))


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
