"""Reads Telegram messages and presses into `ChatMessage` and `Press`, and downloads attachments."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Literal

from telegram import (
    Bot,
    CallbackQuery,
    Chat,
    Location,
    Message,
    MessageEntity,
    MessageOrigin,
    MessageOriginChannel,
    MessageOriginChat,
    MessageOriginHiddenUser,
    MessageOriginUser,
    PhotoSize,
    User,
)
from telegram.constants import ChatType, MessageEntityType
from telegram.error import BadRequest, TelegramError

from agent.untrusted import in_a_note, wrap_untrusted
from gateway.errors import AttachmentRefused
from gateway.text.unicode import utf16_length
from gateway.types import Attachment, AttachmentKind, Author, ChatMessage, Place, Press, Quote, command_name

_MEGABYTE = 1_000_000
_MAX_PHOTO_BYTES = 10 * 2**20
_IMAGES = ("image/jpeg", "image/png", "image/webp", "image/gif")
_FILES: tuple[tuple[str, str, str, AttachmentKind], ...] = (
    ("voice", "voice.ogg", "audio/ogg", "voice"),
    ("video_note", "video.mp4", "video/mp4", "video"),
    ("audio", "audio.mp3", "audio/mpeg", "audio"),
    ("video", "video.mp4", "video/mp4", "video"),
    ("animation", "video.mp4", "video/mp4", "video"),
    ("document", "document", "application/octet-stream", "document"),
)
"""Fields of a message, with the name and the type of a file that has none. An animation has a document, too."""


class TelegramFiles:
    def __init__(self, bot: Bot) -> None:
        self._bot = bot

    def of(self, message: Message) -> tuple[Attachment, ...]:
        """Return the attachment, if any; an album arrives as several messages."""
        if message.photo:
            photo = _largest_usable(message.photo)
            return self._one(photo.file_id, "photo.jpg", "image/jpeg", "image", photo.file_size)
        for field, default_name, default_mime, kind in _FILES:
            file = getattr(message, field)
            if file is None:
                continue
            name = getattr(file, "file_name", None) or default_name
            mime = getattr(file, "mime_type", None) or default_mime
            if kind == "document" and mime in _IMAGES:
                kind = "image"
            elif kind == "voice" and message.forward_origin is not None:
                kind = "audio"  # a forwarded voice message is not the sender's own speech
            return self._one(file.file_id, name, mime, kind, file.file_size)
        return ()

    def _one(
        self, file_id: str, name: str, mime: str, kind: AttachmentKind, size: int | None
    ) -> tuple[Attachment, ...]:
        return (Attachment(name, mime, kind, size, partial(self.read, file_id, name, size), file_id),)

    async def read(self, file_id: str, name: str, size: int | None, limit: int) -> bytes:
        _check(name, size, limit)
        try:
            file = await self._bot.get_file(file_id)
            _check(name, file.file_size, limit)
            data = bytes(await file.download_as_bytearray())
        except BadRequest as error:
            is_too_big = "too big" in error.message.lower()
            problem = (
                f"{name} is larger than 20 MB, the most that Telegram gives to bots."
                if is_too_big
                else f"Telegram no longer has {name}; please send it again."
            )
            raise AttachmentRefused(problem) from None
        except TelegramError:
            raise AttachmentRefused(
                f"{name} could not be downloaded from Telegram; please send it again."
            ) from None
        _check(name, len(data), limit)
        return data


def _check(name: str, size: int | None, limit: int) -> None:
    if size is not None and size > limit:
        raise AttachmentRefused(
            f"{name} has {size / _MEGABYTE:.1f} MB; at most {limit / _MEGABYTE:.1f} MB are accepted."
        )


def _largest_usable(sizes: Sequence[PhotoSize]) -> PhotoSize:
    """Return the largest size that a model accepts."""
    usable = [size for size in sizes if (size.file_size or 0) <= _MAX_PHOTO_BYTES]
    return max(usable or sizes[:1], key=lambda size: size.width * size.height)


_START_COMMAND = "start"
"""Command that the Start button of every chat with a bot sends; it shows the help."""

AddressedTo = Literal["me", "another", "no bot"]


def addressed_text(
    text: str, entities: Sequence[MessageEntity], me: User, commands: Set[str]
) -> tuple[str, AddressedTo]:
    """Return the text without the bot's name, and whether it addresses this bot, another one or no bot."""
    for entity in entities:  # a command in bold has two entities at the same offset
        if entity.type == MessageEntityType.BOT_COMMAND and entity.offset == 0:
            return _command(text, entity, me, commands)
    mentions = [_span(text, entity) for entity in entities if _is_mention(text, entity, me)]
    for start, end in reversed(mentions):
        text = _join_parts(text[:start], text[end:])
    return text, "me" if mentions else "no bot"


def _command(text: str, entity: MessageEntity, me: User, commands: Set[str]) -> tuple[str, AddressedTo]:
    _, end = _span(text, entity)
    name, at, bot = text[1:end].partition("@")
    if at and bot.lower() != (me.username or "").lower():
        return text, "another"
    # In a group, a command without a bot's name addresses any bot that knows it.
    addressed_to: AddressedTo = "me" if at or command_name(name) in commands else "no bot"
    if command_name(name) == _START_COMMAND and _START_COMMAND not in commands:
        return "/help", addressed_to
    return f"/{name}{text[end:]}", addressed_to


def _is_mention(text: str, entity: MessageEntity, me: User) -> bool:
    if entity.type == MessageEntityType.TEXT_MENTION:
        return entity.user is not None and entity.user.id == me.id
    if entity.type != MessageEntityType.MENTION:
        return False
    start, end = _span(text, entity)
    return text[start:end].lower() == f"@{me.username}".lower()


def _span(text: str, entity: MessageEntity) -> tuple[int, int]:
    """Return start and end in characters: Telegram counts UTF-16 units."""
    encoded = text.encode("utf-16-le", "surrogatepass")

    def characters(units: int) -> int:
        return len(encoded[: 2 * units].decode("utf-16-le", "ignore"))

    return characters(entity.offset), characters(entity.offset + entity.length)


def _join_parts(before: str, after: str) -> str:
    """Join the text around a removed mention: `@bot, hello` becomes `hello`."""
    if not before.strip():
        return after.lstrip(" \n\t,:")
    if not after or after[0] in " \n,.;:!?":
        before = before.rstrip(" ")
    return before + after


_MAX_NAME = 64
_NO_BRACKETS = str.maketrans("", "", "[]")
_FILE_LABELS = {
    "photo": "image",
    "voice": "voice message",
    "audio": "audio",
    "animation": "animation",
    "video": "video",
    "video_note": "video",
    "document": "document",
}
_UNSUPPORTED = ("story", "game", "invoice", "paid_media", "giveaway", "checklist", "gift")


def message_text(message: Message) -> str:
    """Return the text, or the caption."""
    return message.text or message.caption or ""


def describe_content(message: Message) -> str:
    """Describe content without text in brackets, such as a sticker; empty for a service message."""
    if message.sticker is not None:
        return f"[sticker {message.sticker.emoji or ''}".rstrip() + "]"
    if message.venue is not None:
        place = message.venue
        return f"[place: {in_a_note(f'{place.title}, {place.address}')}, {_position(place.location)}]"
    if message.location is not None:
        return f"[location: {_position(message.location)}]"
    if message.contact is not None:
        person = message.contact
        name = display_name(person.first_name, person.last_name)
        return f"[contact: {name}, {in_a_note(person.phone_number)}]"
    if message.poll is not None:
        options = " / ".join(option.text for option in message.poll.options)
        return f"[poll: {in_a_note(f'{message.poll.question} {options}')}]"
    if message.dice is not None:
        return f"[dice {message.dice.emoji} {message.dice.value}]"
    return next((f"[{kind.replace('_', ' ')}]" for kind in _UNSUPPORTED if getattr(message, kind)), "")


def mark_forwarded(message: Message, text: str) -> str:
    """Mark forwarded text, so that it does not pass for the sender's own words."""
    if message.forward_origin is None:
        return text
    note = f"[forwarded from {_origin_name(message.forward_origin)}]"
    return f"{note}\n{wrap_untrusted(text)}" if text else note


def quote_of(message: Message) -> Quote | None:
    """Return the quoted part, or the whole message that this one replies to."""
    above, elsewhere = replied_to(message), message.external_reply
    if above is not None:
        author, text = (
            sender_name(above),
            message_text(above) or describe_content(above) or _file_label(above),
        )
    elif elsewhere is not None:
        author, text = _origin_name(elsewhere.origin), ""
    else:
        return None
    if message.quote is not None:
        text = message.quote.text
    return Quote(author, text) if text else None


def replied_to(message: Message) -> Message | None:
    """Return the message that this one replies to. In a topic, every message refers to the note that opened it."""
    above = message.reply_to_message
    return None if above is None or above.forum_topic_created is not None else above


def sender_name(message: Message) -> str:
    if message.sender_chat is not None:
        return display_name(message.sender_chat.effective_name)
    return display_name(message.from_user.full_name) if message.from_user is not None else display_name()


def display_name(*parts: str | None) -> str:
    """Return a name on one line and without brackets, so that it cannot imitate a note of Hermes."""
    name = in_a_note(" ".join(part for part in parts if part).translate(_NO_BRACKETS))
    return name[:_MAX_NAME] or "someone"


def _origin_name(origin: MessageOrigin) -> str:
    match origin:
        case MessageOriginUser():
            return display_name(origin.sender_user.full_name)
        case MessageOriginHiddenUser():
            return display_name(origin.sender_user_name)
        case MessageOriginChat():
            return display_name(origin.sender_chat.effective_name)
        case MessageOriginChannel():
            return display_name(origin.chat.effective_name)
    return display_name()


def _file_label(message: Message) -> str:
    return next((f"[{word}]" for field, word in _FILE_LABELS.items() if getattr(message, field)), "")


def _position(location: Location) -> str:
    return f"{location.latitude:.5f} {location.longitude:.5f}"


_MAYBE_SPLIT_LENGTH = 2048
"""Clients split a text above 4096 units, some at the last blank line of its second half."""


@dataclass(frozen=True, slots=True)
class TelegramReader:
    """Converts messages and presses for one bot."""

    me: User
    commands: Set[str]
    """Names and aliases, as people type them."""
    files: TelegramFiles

    def message(self, message: Message) -> ChatMessage | None:
        """Convert a message; None for a service message, such as a new member or title."""
        text_written, attachments = message_text(message), self.files.of(message)
        other = describe_content(message)
        if not (text_written or other or attachments):
            return None
        text, addressed_to = self._addressed(message, text_written)
        place = place_of(message.chat, message)
        return ChatMessage(
            id=str(message.message_id),
            place=place,
            author=_author(message),
            text=mark_forwarded(message, "\n".join(part for part in (other, text) if part)),
            addressed=addressed_to == "me"
            or (addressed_to == "no bot" and (place.kind == "direct" or self._is_reply_to_me(message))),
            quote=quote_of(message),
            attachments=attachments,
            album=message.media_group_id or "",
            maybe_unfinished=utf16_length(text_written) >= _MAYBE_SPLIT_LENGTH,
            written_at=message.date.timestamp(),
        )

    def press(self, query: CallbackQuery) -> Press | None:
        """Convert a press; None if Telegram no longer has the message or its data."""
        message = query.message
        if message is None or not query.data:
            return None
        whole = message if isinstance(message, Message) else None
        user = query.from_user
        return Press(
            place=place_of(message.chat, whole),
            author=Author(str(user.id), display_name(user.full_name), user.is_bot),
            message_id=str(message.message_id),
            data=query.data,
        )

    def _addressed(self, message: Message, text_written: str) -> tuple[str, AddressedTo]:
        """Ignore commands and mentions in a forward: they were not written to this bot."""
        if message.forward_origin is not None:
            return text_written, "no bot"
        return addressed_text(
            text_written, message.entities or message.caption_entities, self.me, self.commands
        )

    def _is_reply_to_me(self, message: Message) -> bool:
        above = replied_to(message)
        return above is not None and above.from_user is not None and above.from_user.id == self.me.id


def place_of(chat: Chat, message: Message | None) -> Place:
    """Return the place of a message. A thread id counts only in a topic: elsewhere it is a chain of replies."""
    topic = message.message_thread_id if message is not None and message.is_topic_message else None
    is_direct = chat.type == ChatType.PRIVATE
    return Place(
        chat_id=str(chat.id),
        thread_id=str(topic) if topic is not None else "",
        kind="direct" if is_direct else "group",
        group_id="" if is_direct else str(chat.id),
    )


def _author(message: Message) -> Author:
    """Return the author. A message in the name of a chat (a channel, an anonymous administrator) counts as a bot's."""
    if message.sender_chat is not None:
        return Author(str(message.sender_chat.id), sender_name(message), is_bot=True)
    user = message.from_user
    if user is None:
        return Author("", sender_name(message), is_bot=True)
    return Author(str(user.id), sender_name(message), user.is_bot)
