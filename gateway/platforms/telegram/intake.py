"""Where updates come in, however they were fetched: in order within a chat, no chat behind another.

Telegram repeats an update whose confirmation was lost. That is no harm: the desk knows a message by its number, an
edit that changes nothing is none, and what a button decides is decided once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import structlog
from telegram import CallbackQuery, Message, Update
from telegram.error import TelegramError

from agent.errors import StoreError
from gateway.chat.contract import ChatDesk
from gateway.chat.lines import Lines
from gateway.platforms.telegram.failures import delivery_failure
from gateway.platforms.telegram.incoming import Reader
from gateway.text.measure import longest_prefix, utf16_units

log = structlog.get_logger(__name__)

_LONGEST_ANSWER = 200
"""Of what a button says when it is pressed."""


class Intake:
    def __init__(self, desk: ChatDesk, reader: Reader, lines: Lines) -> None:
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
    if utf16_units(answer) > _LONGEST_ANSWER:
        answer = answer[: longest_prefix(answer, _LONGEST_ANSWER - 1, utf16_units)] + "…"
    try:
        await query.answer(answer or None)
    except TelegramError as error:
        # Too late for the spinner; what the press did stands all the same.
        log.info("telegram.press_not_answered", detail=str(delivery_failure(error)))
