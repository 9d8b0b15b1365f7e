"""Whether a text is meant for the bot: commands and mentions, found by Telegram and marked in UTF-16 units."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Literal

from telegram import MessageEntity, User
from telegram.constants import MessageEntityType

from gateway.commands import spelled

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
    addressee: Addressee = "me" if at or spelled(name) in commands else "nobody"
    if spelled(name) == _START and _START not in commands:
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
