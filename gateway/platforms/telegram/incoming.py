"""Telegram's messages and presses, told in the words of the chat contract."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from telegram import CallbackQuery, Chat, Message, User
from telegram.constants import ChatType

from gateway.chat.contract import Author, ChatMessage, Place, Press
from gateway.platforms.telegram.addressing import Addressee, addressed_text
from gateway.platforms.telegram.attachments import Files
from gateway.platforms.telegram.content import (
    described,
    forwarded,
    name_of,
    quote_of,
    replied_to,
    sender_name,
    words,
)
from gateway.text.measure import utf16_units

_PROBABLY_CUT = 2048
"""A client cuts what is longer than 4096 units, some of them at the last blank line of the second half."""


@dataclass(frozen=True, slots=True)
class Reader:
    me: User
    commands: Set[str]
    """As people type them, aliases among them."""
    files: Files

    def message(self, message: Message) -> ChatMessage | None:
        """None for a note about a change: somebody joined, a title is new."""
        said, attachments = words(message), self.files.of(message)
        other = described(message)
        if not (said or other or attachments):
            return None
        text, addressee = self._addressed(message, said)
        place = place_of(message.chat, message)
        return ChatMessage(
            id=str(message.message_id),
            place=place,
            author=_author(message),
            text=forwarded(message, "\n".join(part for part in (other, text) if part)),
            addressed=addressee == "me"
            or (addressee == "nobody" and (place.kind == "direct" or self._is_reply_to_me(message))),
            quote=quote_of(message),
            attachments=attachments,
            album=message.media_group_id or "",
            maybe_unfinished=utf16_units(said) >= _PROBABLY_CUT,
            written_at=message.date.timestamp(),
        )

    def press(self, query: CallbackQuery) -> Press | None:
        """None if there is nothing left to know what was pressed."""
        message = query.message
        if message is None or not query.data:
            return None
        whole = message if isinstance(message, Message) else None
        user = query.from_user
        return Press(
            place=place_of(message.chat, whole),
            author=Author(str(user.id), name_of(user.full_name), user.is_bot),
            message_id=str(message.message_id),
            data=query.data,
        )

    def _addressed(self, message: Message, said: str) -> tuple[str, Addressee]:
        """A forward may hold a command or a mention, but it was not written to the bot."""
        if message.forward_origin is not None:
            return said, "nobody"
        return addressed_text(said, message.entities or message.caption_entities, self.me, self.commands)

    def _is_reply_to_me(self, message: Message) -> bool:
        above = replied_to(message)
        return above is not None and above.from_user is not None and above.from_user.id == self.me.id


def place_of(chat: Chat, message: Message | None) -> Place:
    """The number of a thread counts only in a topic: elsewhere it is a chain of replies."""
    topic = message.message_thread_id if message is not None and message.is_topic_message else None
    is_direct = chat.type == ChatType.PRIVATE
    return Place(
        chat_id=str(chat.id),
        thread_id=str(topic) if topic is not None else "",
        kind="direct" if is_direct else "group",
        group_id="" if is_direct else str(chat.id),
    )


def _author(message: Message) -> Author:
    """Who writes in the name of a chat could be anybody: a channel, an administrator who stays anonymous."""
    if message.sender_chat is not None:
        return Author(str(message.sender_chat.id), sender_name(message), is_bot=True)
    user = message.from_user
    if user is None:
        return Author("", sender_name(message), is_bot=True)
    return Author(str(user.id), sender_name(message), user.is_bot)
