"""What a message says when it is more, or other, than a text: stickers, places, polls, forwards, quotes."""

from __future__ import annotations

from telegram import (
    Location,
    Message,
    MessageOrigin,
    MessageOriginChannel,
    MessageOriginChat,
    MessageOriginHiddenUser,
    MessageOriginUser,
)

from agent.untrusted import in_a_note, wrap_untrusted
from gateway.chat.contract import Quote

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
