"""Where updates come in, however they were fetched: in order within a chat, no chat behind another.

Telegram repeats an update whose confirmation was lost. That is no harm: the desk knows a message by its number, an
edit that changes nothing is none, and what a button decides is decided once.
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
from gateway.platforms.telegram.errors import WentSilent, delivery_failure
from gateway.platforms.telegram.message_reader import Reader
from gateway.text.unicode import prefix_length, utf16_length

log = structlog.get_logger(__name__)

UNREADABLE = (TypeError, KeyError, ValueError, AttributeError, IndexError, OverflowError, OSError)
"""What the library raises for what it does not expect; the last two for dates beyond all time."""

ALLOWED_UPDATES = ("message", "edited_message", "callback_query", "my_chat_member")


def readable(update: dict[str, Any]) -> dict[str, Any]:
    """The update, or one of the same number with nothing in it, which is confirmed and passed over."""
    try:
        Update.de_json(update, None)
    except UNREADABLE as error:
        number = update["update_id"]
        log.warning("telegram.update_unreadable", update_id=number, error=type(error).__name__)
        return {"update_id": number}
    return update


_GOODBYE_SECONDS = 2.0


class Polling:
    """What it knows outlives a connection: where it was, and whether somebody else polls too."""

    def __init__(self, *, seconds: int, margin: float) -> None:
        self._seconds = seconds
        self._margin = margin
        self._offset = 0
        self._contested = False

    async def run(self, bot: Bot, intake: Intake, up: Callable[[], None]) -> None:
        # Without dropping what waits: a webhook that somebody set must not cost a message.
        await bot.delete_webhook()
        try:
            await self._poll(bot, intake, up)
        except Conflict:
            self._contested = True
            raise
        except asyncio.CancelledError:
            await self._confirm(bot)
            raise

    async def _poll(self, bot: Bot, intake: Intake, up: Callable[[], None]) -> None:
        seconds = 0  # the first round trip only shows that it works
        while True:
            updates = await self._round_trip(bot, seconds)
            # Where two poll, each short poll succeeds and each long one is ended by the other's.
            if seconds or not self._contested:
                self._contested = False
                up()
            # Not confirmed before all are kept: a failure brings the whole lot again.
            await intake.take(updates)
            self._offset = max([self._offset, *(update.update_id + 1 for update in updates)])
            seconds = self._seconds

    async def _round_trip(self, bot: Bot, seconds: int) -> tuple[Update, ...]:
        try:
            async with asyncio.timeout(seconds + self._margin):
                return await bot.get_updates(
                    offset=self._offset, timeout=seconds, allowed_updates=ALLOWED_UPDATES
                )
        except TimeoutError:
            raise WentSilent from None

    async def _confirm(self, bot: Bot) -> None:
        """So that the next start does not get the last ones again."""
        if self._offset:
            with suppress(TelegramError, TimeoutError):
                async with asyncio.timeout(_GOODBYE_SECONDS):
                    await bot.get_updates(offset=self._offset, limit=1, timeout=0)


_LONGEST_ANSWER = 200
"""Of what a button says when it is pressed."""


class Intake:
    def __init__(self, desk: InboundHandler, reader: Reader, lines: KeyedQueue) -> None:
        self._desk = desk
        self._reader = reader
        self._lines = lines

    async def take(self, updates: Sequence[Update]) -> None:
        """Once this returns they are kept and may be confirmed to Telegram. Raises StoreError if one of them is not:
        then all have to come again. What cannot be read must not be asked for again and again."""
        # All of them come to their end before one of them counts, or the next attempt would run into this one.
        refused: set[int] = set()
        taken = [outcome for update in updates if (outcome := self._put_if_usable(update, refused))]
        await asyncio.gather(*taken, return_exceptions=True)
        for outcome in taken:
            outcome.result()

    def _put_if_usable(self, update: Update, refused: set[int]) -> asyncio.Future[None] | None:
        try:
            return self._put(update, refused)
        except (AttributeError, TypeError) as error:
            # The library reads a message from nowhere without complaint.
            number, name = update.update_id, type(error).__name__
            log.warning("telegram.update_unusable", update_id=number, error=name)
            return None

    def _put(self, update: Update, refused: set[int]) -> asyncio.Future[None] | None:
        if update.message is not None:
            return self._in_order(update.message, self._message, refused)
        if update.edited_message is not None:
            return self._in_order(update.edited_message, self._edited, refused)
        self._put_aside(update)
        return None

    def _in_order(
        self, message: Message, take: Callable[[Message], Awaitable[None]], refused: set[int]
    ) -> asyncio.Future[None]:
        """What follows in a chat on something that was refused must not get ahead of it."""

        async def job() -> None:
            if message.chat_id in refused:
                return
            try:
                await take(message)
            except StoreError:
                refused.add(message.chat_id)
                raise

        return self._lines.outcome(message.chat_id, job)

    def _put_aside(self, update: Update) -> None:
        """What is over if it is not dealt with at once."""
        if update.callback_query is not None:
            # Not behind the messages of its chat: it may be what they wait for.
            query = update.callback_query
            self._lines.put(("press", query.from_user.id), partial(self._pressed, query))
        elif update.my_chat_member is not None:
            change = update.my_chat_member
            log.info("telegram.standing", chat=change.chat.id, status=change.new_chat_member.status)

    async def _message(self, message: Message) -> None:
        if message.migrate_to_chat_id is not None:
            log.warning("telegram.group_moved", old=message.chat_id, new=message.migrate_to_chat_id)
        read = self._reader.message(message)
        if read is not None:
            await self._desk.message(read)

    async def _edited(self, message: Message) -> None:
        # A location that is shared live "edits" its message with every step.
        read = self._reader.message(message) if message.location is None else None
        if read is not None:
            await self._desk.edited(read)

    async def _pressed(self, query: CallbackQuery) -> None:
        """Answered whatever happens: until then the button shows a spinner."""
        answer = "That did not work."
        try:
            press = self._reader.press(query)
            answer = await self._desk.pressed(press) if press else "This button does nothing any more."
        finally:
            await _answer(query, answer)


async def _answer(query: CallbackQuery, answer: str) -> None:
    if utf16_length(answer) > _LONGEST_ANSWER:
        answer = answer[: prefix_length(answer, _LONGEST_ANSWER - 1, utf16_length)] + "…"
    try:
        await query.answer(answer or None)
    except TelegramError as error:
        # Too late for the spinner; what the press did stands all the same.
        log.info("telegram.press_not_answered", detail=str(delivery_failure(error)))
