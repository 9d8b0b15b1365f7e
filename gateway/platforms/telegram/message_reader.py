"""What a message says when it is more, or other, than a text: stickers, places, polls, forwards, quotes."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Literal

from telegram import (
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
    User,
)
from telegram.constants import ChatType, MessageEntityType

from agent.untrusted import in_a_note, wrap_untrusted
from gateway.platforms.telegram.attachments import Files
from gateway.text.unicode import utf16_length
from gateway.types import Author, ChatMessage, Place, Press, Quote, command_name

_START = "start"
"""What the first button in every chat with a bot sends, sometimes with a word behind it: what can you do?"""

Addressee = Literal["me", "another", "nobody"]


def addressed_text(
    text: str, entities: Sequence[MessageEntity], me: User, commands: Set[str]
) -> tuple[str, Addressee]:
    """The text without the bot's name, and whom it addresses: this bot, another one, or nobody in particular."""
    for entity in entities:  # a command in bold is not the only one at its place
        if entity.type == MessageEntityType.BOT_COMMAND and entity.offset == 0:
            return _command(text, entity, me, commands)
    mentions = [_span(text, entity) for entity in entities if _is_mention(text, entity, me)]
    for start, end in reversed(mentions):
        text = _joined(text[:start], text[end:])
    return text, "me" if mentions else "nobody"


def _command(text: str, entity: MessageEntity, me: User, commands: Set[str]) -> tuple[str, Addressee]:
    _, end = _span(text, entity)
    name, at, bot = text[1:end].partition("@")
    if at and bot.lower() != (me.username or "").lower():
        return text, "another"
    # In a group, a command without a name may be meant for any bot that knows it.
    addressee: Addressee = "me" if at or command_name(name) in commands else "nobody"
    if command_name(name) == _START and _START not in commands:
        return "/help", addressee
    return f"/{name}{text[end:]}", addressee


def _is_mention(text: str, entity: MessageEntity, me: User) -> bool:
    if entity.type == MessageEntityType.TEXT_MENTION:
        return entity.user is not None and entity.user.id == me.id
    if entity.type != MessageEntityType.MENTION:
        return False
    start, end = _span(text, entity)
    return text[start:end].lower() == f"@{me.username}".lower()


def _span(text: str, entity: MessageEntity) -> tuple[int, int]:
    """In characters: Telegram counts most emoji as two."""
    encoded = text.encode("utf-16-le", "surrogatepass")

    def characters(units: int) -> int:
        return len(encoded[: 2 * units].decode("utf-16-le", "ignore"))

    return characters(entity.offset), characters(entity.offset + entity.length)


def _joined(before: str, after: str) -> str:
    """As if the name had never stood between the two: `@bot, hello` is `hello`."""
    if not before.strip():
        return after.lstrip(" \n\t,:")
    if not after or after[0] in " \n,.;:!?":
        before = before.rstrip(" ")
    return before + after


_LONGEST_NAME = 64
_NO_BRACKETS = str.maketrans("", "", "[]")
_FILES = {
    "photo": "image",
    "voice": "voice message",
    "audio": "audio",
    "animation": "animation",
    "video": "video",
    "video_note": "video",
    "document": "document",
}
_UNREADABLE = ("story", "game", "invoice", "paid_media", "giveaway", "checklist", "gift")


def words(message: Message) -> str:
    """The text itself, or the one under a picture."""
    return message.text or message.caption or ""


def described(message: Message) -> str:
    """A few words in brackets for what has none of its own. Empty for a message that only tells of a change."""
    if message.sticker is not None:
        return f"[sticker {message.sticker.emoji or ''}".rstrip() + "]"
    if message.venue is not None:
        place = message.venue
        return f"[place: {in_a_note(f'{place.title}, {place.address}')}, {_position(place.location)}]"
    if message.location is not None:
        return f"[location: {_position(message.location)}]"
    if message.contact is not None:
        person = message.contact
        name = name_of(person.first_name, person.last_name)
        return f"[contact: {name}, {in_a_note(person.phone_number)}]"
    if message.poll is not None:
        options = " / ".join(option.text for option in message.poll.options)
        return f"[poll: {in_a_note(f'{message.poll.question} {options}')}]"
    if message.dice is not None:
        return f"[dice {message.dice.emoji} {message.dice.value}]"
    return next((f"[{kind.replace('_', ' ')}]" for kind in _UNREADABLE if getattr(message, kind)), "")


def forwarded(message: Message, text: str) -> str:
    """The text; in a forward it is marked, so that none of it passes for the sender's own."""
    if message.forward_origin is None:
        return text
    note = f"[forwarded from {_origin_name(message.forward_origin)}]"
    return f"{note}\n{wrap_untrusted(text)}" if text else note


def quote_of(message: Message) -> Quote | None:
    """The part that was picked, or else all of what is replied to."""
    above, elsewhere = replied_to(message), message.external_reply
    if above is not None:
        author, text = sender_name(above), words(above) or described(above) or _file(above)
    elif elsewhere is not None:
        author, text = _origin_name(elsewhere.origin), ""
    else:
        return None
    if message.quote is not None:
        text = message.quote.text
    return Quote(author, text) if text else None


def replied_to(message: Message) -> Message | None:
    """In a topic, what replies to nothing seems to reply to the note that opened the topic."""
    above = message.reply_to_message
    return None if above is None or above.forum_topic_created is not None else above


def sender_name(message: Message) -> str:
    if message.sender_chat is not None:
        return name_of(message.sender_chat.effective_name)
    return name_of(message.from_user.full_name) if message.from_user is not None else name_of()


def name_of(*parts: str | None) -> str:
    """On one line and without brackets: a name must not look like a note of ours."""
    name = in_a_note(" ".join(part for part in parts if part).translate(_NO_BRACKETS))
    return name[:_LONGEST_NAME] or "somebody"


def _origin_name(origin: MessageOrigin) -> str:
    match origin:
        case MessageOriginUser():
            return name_of(origin.sender_user.full_name)
        case MessageOriginHiddenUser():
            return name_of(origin.sender_user_name)
        case MessageOriginChat():
            return name_of(origin.sender_chat.effective_name)
        case MessageOriginChannel():
            return name_of(origin.chat.effective_name)
    return name_of()


def _file(message: Message) -> str:
    return next((f"[{word}]" for field, word in _FILES.items() if getattr(message, field)), "")


def _position(location: Location) -> str:
    return f"{location.latitude:.5f} {location.longitude:.5f}"


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
            maybe_unfinished=utf16_length(said) >= _PROBABLY_CUT,
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
