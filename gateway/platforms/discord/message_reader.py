"""Messages that Discord delivers, in the types of `gateway/chat/contract.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import discord

from agent.untrusted import in_a_note, wrap_untrusted
from gateway.commands import Command
from gateway.platforms.discord.attachments import attachments_of
from gateway.types import Author, ChatMessage, Place, Quote, command_name, parse_command

_MENTION = re.compile(r"<(@[!&]?|#)(\d+)>")
_EMOJI = re.compile(r"<a?(:\w+:)\d+>")
_LONGEST_EMBED = 500


def words_of(message: discord.Message, me: int) -> str:
    """Everything a person sees in the message, without the mention of the bot."""
    return "\n".join(part for part in (_written(message, me), *_shown(message)) if part)


def own_role(message: discord.Message) -> discord.Role | None:
    """The role that Discord gives a bot bears its name, and people pick it for the bot itself."""
    return message.guild.self_role if message.guild else None


def _written(message: discord.Message, me: int) -> str:
    role = own_role(message)
    mine = f"<@!?{me}>" + (f"|<@&{role.id}>" if role else "")
    return readable(re.sub(f" ?(?:{mine})", "", message.content).strip(), message)


def readable(text: str, message: discord.Message) -> str:
    """Numbers in mentions and emoji become the names that people see."""
    people = {user.id: user.display_name for user in message.mentions}

    def name(mention: re.Match[str]) -> str:
        kind, number = mention[1], int(mention[2])
        if kind == "#":
            channel = message.guild.get_channel_or_thread(number) if message.guild else None
            return f"#{channel.name}" if channel else mention[0]
        if kind == "@&":
            role = message.guild.get_role(number) if message.guild else None
            return f"@{role.name}" if role else mention[0]
        return f"@{people[number]}" if number in people else mention[0]

    return _EMOJI.sub(r"\1", _MENTION.sub(name, text))


def _shown(message: discord.Message) -> Iterator[str]:
    yield from (f"[sticker: {in_a_note(sticker.name)}]" for sticker in message.stickers)
    yield from _embeds(message.embeds)
    if message.poll:
        answers = " / ".join(str(answer) for answer in message.poll.answers)
        yield f"[poll: {in_a_note(f'{message.poll.question} {answers}')}]"
    for snapshot in message.message_snapshots:
        yield _forwarded(snapshot)


def _embeds(embeds: list[discord.Embed]) -> Iterator[str]:
    """Only what an author wrote: the preview of a link repeats what is behind it."""
    for embed in embeds:
        text = " - ".join(part for part in (embed.title, embed.description) if part)
        if embed.type == "rich" and text:
            yield f"[embed: {in_a_note(text[:_LONGEST_EMBED])}]"


def _forwarded(snapshot: discord.MessageSnapshot) -> str:
    """Somebody else's words: marked, so that they cannot pass for the sender's own."""
    parts = [snapshot.content, *(f"[sticker: {sticker.name}]" for sticker in snapshot.stickers)]
    said = "\n".join([*filter(None, parts), *_embeds(snapshot.embeds)])
    return f"[forwarded message]\n{wrap_untrusted(said)}" if said else "[forwarded message]"


_LONG = 1900
"""A paste is cut near 2000 characters; a message as long as this may be its first part."""

_WRITTEN_BY_SOMEBODY = (discord.MessageType.default, discord.MessageType.reply)


class Reader:
    """Reads messages for one bot."""

    def __init__(self, me: int, commands: Sequence[Command]) -> None:
        self._me = me
        self._commands = {command_name(name): command for command in commands for name in _names(command)}

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
        call = parse_command(text)
        return self._commands.get(call.name) if call else None


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
