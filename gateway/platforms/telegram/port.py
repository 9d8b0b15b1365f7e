"""Outbound calls: the `ChatPort` of Telegram, by Bot API calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog
from telegram import (
    Bot,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputFile,
    LinkPreviewOptions,
    MessageEntity,
    ReplyParameters,
)
from telegram.constants import ChatAction, FileSizeLimit, MessageLimit
from telegram.error import BadRequest

from gateway.chat.errors import ContentRefused
from gateway.platforms.telegram.errors import MissingRight, delivery_errors
from gateway.platforms.telegram.formatting import LIMIT, format_markdown, suppress_mentions
from gateway.platforms.telegram.message_reader import TelegramFiles
from gateway.text.unicode import Measure, repair_surrogates, utf16_length
from gateway.types import Button, Place

log = structlog.get_logger(__name__)

T = TypeVar("T")

_DIRECT_EDIT_SECONDS = 1.0
_GROUP_EDIT_SECONDS = 3.5
"""A group accepts 20 messages a minute from a bot, including edits."""

_MAX_ROW, _MAX_ROW_LABEL = 3, 14
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)


class TelegramPort:
    """`ChatPort` of one Telegram bot."""

    limit = LIMIT
    measure: Measure = staticmethod(utf16_length)
    can_edit = True
    file_limit: int = FileSizeLimit.FILESIZE_UPLOAD

    def __init__(self, platform: str, bot: Bot) -> None:
        self.platform = platform
        self._bot = bot

    def edit_seconds(self, place: Place) -> float:
        return _DIRECT_EDIT_SECONDS if place.kind == "direct" else _GROUP_EDIT_SECONDS

    def pace_key(self, place: Place) -> str:
        """Topics share the limit of their group."""
        return place.chat_id

    async def direct(self, user_id: str) -> Place:
        """Return the direct chat, which has the id of the user."""
        return Place(chat_id=user_id)

    async def send(
        self,
        place: Place,
        text: str,
        *,
        formatted: bool = False,
        reply_to: str = "",
        buttons: Sequence[Button] = (),
        silent: bool = False,
    ) -> str:
        async def sent(shown: str, entities: Sequence[MessageEntity]) -> str:
            with delivery_errors():
                message = await self._bot.send_message(
                    int(place.chat_id),
                    shown,
                    entities=entities,
                    message_thread_id=_thread(place),
                    reply_parameters=_reply(reply_to),
                    reply_markup=_keyboard(buttons),
                    link_preview_options=_NO_PREVIEW,
                    disable_notification=silent,
                )
                return str(message.message_id)

        return await _formatted_or_plain(text, formatted, sent)

    async def edit(
        self,
        place: Place,
        message_id: str,
        text: str,
        *,
        formatted: bool = False,
        buttons: Sequence[Button] = (),
    ) -> None:
        async def edited(shown: str, entities: Sequence[MessageEntity]) -> None:
            with delivery_errors():
                try:
                    await self._bot.edit_message_text(
                        shown,
                        int(place.chat_id),
                        int(message_id),
                        entities=entities,
                        reply_markup=_keyboard(buttons),
                        link_preview_options=_NO_PREVIEW,
                    )
                except BadRequest as error:
                    if "not modified" not in error.message.lower():
                        raise

        await _formatted_or_plain(text, formatted, edited)

    async def delete(self, place: Place, message_id: str) -> None:
        with delivery_errors():
            try:
                await self._bot.delete_message(int(place.chat_id), int(message_id))
            except BadRequest as error:
                if "not found" not in error.message.lower() or "chat" in error.message.lower():
                    raise

    async def fetch(self, ref: str, name: str, size: int | None, most: int) -> bytes:
        return await TelegramFiles(self._bot).read(ref, name, size, most)

    async def typing(self, place: Place) -> None:
        with delivery_errors():
            await self._bot.send_chat_action(
                int(place.chat_id), ChatAction.TYPING, message_thread_id=_thread(place)
            )

    async def send_file(self, place: Place, name: str, data: bytes, *, caption: str = "") -> str:
        if len(data) > self.file_limit:
            raise ContentRefused("(Telegram accepts files of up to 50 MB from a bot)")
        if utf16_length(caption) > MessageLimit.CAPTION_LENGTH:
            await self.send(place, caption)
            caption = ""
        try:
            with delivery_errors():
                message = await self._bot.send_document(
                    int(place.chat_id),
                    InputFile(data, filename=name),
                    caption=caption or None,
                    caption_entities=suppress_mentions(caption, ()),
                    message_thread_id=_thread(place),
                    disable_content_type_detection=True,
                )
                return str(message.message_id)
        except MissingRight:
            # Groups forbid files and text separately, so text may still be allowed.
            raise ContentRefused("(the bot may not send files here)") from None


async def _formatted_or_plain(
    text: str, formatted: bool, show: Callable[[str, Sequence[MessageEntity]], Awaitable[T]]
) -> T:
    """Send formatted text, and fall back to the plain text if Telegram refuses the formatting."""
    text = repair_surrogates(text)
    if formatted and utf16_length(text) <= LIMIT:
        # In a thread: hostile Markdown takes the renderer a tenth of a second.
        rich = await asyncio.to_thread(format_markdown, text)
        try:
            return await show(rich.text, suppress_mentions(rich.text, rich.entities))
        except ContentRefused as refused:
            log.info("telegram.formatting_refused", detail=refused.detail)
    return await show(text, suppress_mentions(text, ()))


def _thread(place: Place) -> int | None:
    return int(place.thread_id) if place.thread_id else None


def _reply(message_id: str) -> ReplyParameters | None:
    return ReplyParameters(int(message_id), allow_sending_without_reply=True) if message_id else None


def _keyboard(buttons: Sequence[Button]) -> InlineKeyboardMarkup | None:
    """Put short buttons into one row, and others below each other."""
    if not buttons:
        return None
    keys = [InlineKeyboardButton(button.label, callback_data=button.data) for button in buttons]
    fit_a_row = len(keys) <= _MAX_ROW and all(len(key.text) <= _MAX_ROW_LABEL for key in keys)
    return InlineKeyboardMarkup([keys] if fit_a_row else [[key] for key in keys])
