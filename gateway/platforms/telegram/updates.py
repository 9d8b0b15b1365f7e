"""Inbound updates, by polling or by webhook: in order within a chat, and chats independent of each other.

Telegram repeats an update whose confirmation was lost. The receiver deduplicates messages by id, ignores an edit that
changes nothing, and decides an approval once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import structlog
from telegram import Bot, CallbackQuery, Message, Update
from telegram.error import Conflict, TelegramError

from agent.errors import StoreError
from gateway.chat.adapter import InboundHandler
from gateway.chat.keyed_queue import KeyedQueue
from gateway.platforms.telegram.errors import PollTimedOut, delivery_error
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
            updates = await self._get_updates(bot, seconds)
            # With two pollers, a short poll succeeds, and a long one is ended by the other poller.
            if seconds or not self._has_conflict:
                self._has_conflict = False
                up()
            # Confirm only after all are stored: after a failure Telegram delivers them again.
            await update_receiver.receive(updates)
            self._offset = max([self._offset, *(update.update_id + 1 for update in updates)])
            seconds = self._seconds

    async def _get_updates(self, bot: Bot, seconds: int) -> tuple[Update, ...]:
        try:
            async with asyncio.timeout(seconds + self._margin):
                return await bot.get_updates(
                    offset=self._offset, timeout=seconds, allowed_updates=ALLOWED_UPDATES
                )
        except TimeoutError:
            raise PollTimedOut from None

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
        # Wait for all jobs before raising, so that a retry does not overlap with this attempt.
        failed_chats: set[int] = set()
        outcomes = [outcome for update in updates if (outcome := self._enqueue(update, failed_chats))]
        await asyncio.gather(*outcomes, return_exceptions=True)
        for outcome in outcomes:
            outcome.result()

    def _enqueue(self, update: Update, failed_chats: set[int]) -> asyncio.Future[None] | None:
        try:
            return self._dispatch(update, failed_chats)
        except (AttributeError, TypeError) as error:
            # The library accepts a message without a chat.
            number, name = update.update_id, type(error).__name__
            log.warning("telegram.update_unusable", update_id=number, error=name)
            return None

    def _dispatch(self, update: Update, failed_chats: set[int]) -> asyncio.Future[None] | None:
        if update.message is not None:
            return self._enqueue_message(update.message, self._message, failed_chats)
        if update.edited_message is not None:
            return self._enqueue_message(update.edited_message, self._edited, failed_chats)
        self._handle_other(update)
        return None

    def _enqueue_message(
        self, message: Message, receive: Callable[[Message], Awaitable[None]], failed_chats: set[int]
    ) -> asyncio.Future[None]:
        """Enqueue a message behind the others of its chat; after a failure, skip the rest of that chat."""

        async def job() -> None:
            if message.chat_id in failed_chats:
                return
            try:
                await receive(message)
            except StoreError:
                failed_chats.add(message.chat_id)
                raise

        return self._queue.put_and_wait(message.chat_id, job)

    def _handle_other(self, update: Update) -> None:
        """Handle updates that need not be stored: presses, and changes of the bot's membership."""
        if update.callback_query is not None:
            # Not behind the messages of its chat: they may wait for this press.
            query = update.callback_query
            self._queue.put(("press", query.from_user.id), partial(self._pressed, query))
        elif update.my_chat_member is not None:
            change = update.my_chat_member
            log.info("telegram.membership", chat=change.chat.id, status=change.new_chat_member.status)

    async def _message(self, message: Message) -> None:
        if message.migrate_to_chat_id is not None:
            log.warning("telegram.group_moved", old=message.chat_id, new=message.migrate_to_chat_id)
        read = self._reader.message(message)
        if read is not None:
            await self._receiver.message(read)

    async def _edited(self, message: Message) -> None:
        # A live location edits its message with every move.
        read = self._reader.message(message) if message.location is None else None
        if read is not None:
            await self._receiver.edited(read)

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
