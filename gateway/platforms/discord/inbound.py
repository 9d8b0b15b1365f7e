"""Messages that Discord delivers, in the types of `gateway/chat/contract.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import discord

from gateway.chat.contract import Author, ChatMessage, Place, Quote
from gateway.commands import Command, is_command, spelled
from gateway.platforms.discord.attachments import attachments_of
from gateway.platforms.discord.wording import own_role, readable, words_of

_LONG = 1900
"""A paste is cut near 2000 characters; a message as long as this may be its first part."""

_WRITTEN_BY_SOMEBODY = (discord.MessageType.default, discord.MessageType.reply)


class Reader:
    """Reads messages for one bot."""

    def __init__(self, me: int, commands: Sequence[Command]) -> None:
        self._me = me
        self._commands = {spelled(name): command for command in commands for name in _names(command)}

    def concerns(self, message: discord.Message) -> bool:
        """Not the bot's own, and not a notice of Discord's about joins, pins or threads."""
        return message.author.id != self._me and message.type in _WRITTEN_BY_SOMEBODY

    def words(self, message: discord.Message) -> str:
        return words_of(message, self._me)

    def overtakes(self, text: str) -> bool:
        command = self._command(text)
        return command is not None and command.overtakes

    def message(self, message: discord.Message, place: Place) -> ChatMessage:
        text = self.words(message)
        forwarded = attachments_of(file for each in message.message_snapshots for file in each.attachments)
        # Forwarded, it is somebody else who speaks.
        others = (replace(file, kind="audio") if file.kind == "voice" else file for file in forwarded)
        return ChatMessage(
            id=str(message.id),
            place=place,
            author=_author(message),
            text=text,
            addressed=place.kind == "direct" or self._is_addressed(message, text),
            quote=_quote(message),
            attachments=(*attachments_of(message.attachments), *others),
            maybe_unfinished=len(message.content) >= _LONG,
            written_at=message.created_at.timestamp(),
        )

    def _is_addressed(self, message: discord.Message, text: str) -> bool:
        """`@everyone` means nobody in particular, so it is no mention."""
        replied_to = _replied_to(message)
        return (
            any(user.id == self._me for user in message.mentions)
            or own_role(message) in message.role_mentions
            or (replied_to is not None and replied_to.author.id == self._me)
            or self._command(text) is not None
        )

    def _command(self, text: str) -> Command | None:
        """One of ours: `/play` in a server is for some other bot."""
        return self._commands.get(spelled(text.split()[0].removeprefix("/"))) if is_command(text) else None


def place_of(channel: object) -> Place:
    """A place that is not surely direct is a group: what is allowed in private must not open one by mistake."""
    if isinstance(channel, discord.DMChannel):
        return Place(str(channel.id))
    channel_id = str(getattr(channel, "id", ""))
    guild_id = getattr(channel, "guild_id", None) or getattr(getattr(channel, "guild", None), "id", "")
    if isinstance(channel, discord.Thread):
        return Place(str(channel.parent_id), thread_id=channel_id, kind="group", group_id=str(guild_id))
    return Place(channel_id, kind="group", group_id=str(guild_id))


def channel_id_of(place: Place) -> int:
    return int(place.thread_id or place.chat_id)


def person_of(user: discord.User | discord.Member) -> Author:
    return Author(str(user.id), user.display_name, is_bot=user.bot)


def _author(message: discord.Message) -> Author:
    """A webhook may bear any name and is never a person."""
    person = person_of(message.author)
    return Author(person.id, person.name, is_bot=person.is_bot or message.webhook_id is not None)


def _replied_to(message: discord.Message) -> discord.Message | None:
    if message.reference is None or message.type is not discord.MessageType.reply:
        return None
    resolved = message.reference.resolved or message.reference.cached_message
    return resolved if isinstance(resolved, discord.Message) else None


def _quote(message: discord.Message) -> Quote | None:
    quoted = _replied_to(message)
    return Quote(quoted.author.display_name, _quoted_words(quoted)) if quoted else None


def _quoted_words(quoted: discord.Message) -> str:
    files = "\n".join(f"[file: {file.filename}]" for file in quoted.attachments)
    return "\n".join(filter(None, (readable(quoted.content, quoted), files)))


def _names(command: Command) -> tuple[str, ...]:
    return (command.name, *command.aliases)
