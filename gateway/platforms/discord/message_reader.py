"""Reads Discord messages into `ChatMessage`, and downloads attachments."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import aiohttp
import discord

from agent.untrusted import in_a_note, wrap_untrusted
from gateway.commands import Command
from gateway.errors import AttachmentRefused
from gateway.platforms.discord.errors import NETWORK_ERRORS
from gateway.types import (
    Attachment,
    AttachmentKind,
    Author,
    ChatMessage,
    Place,
    Quote,
    command_name,
    parse_command,
)

_KINDS: dict[str, AttachmentKind] = {"image": "image", "audio": "audio", "video": "video"}
_CHUNK = 64 * 1024
_TIMEOUT = aiohttp.ClientTimeout(total=120.0, sock_connect=15.0)


def attachment_of(file: discord.Attachment) -> Attachment:
    declared = (file.content_type or "").partition(";")[0].strip()
    mime = declared or mimetypes.guess_type(file.filename)[0] or "application/octet-stream"
    kind = "voice" if file.is_voice_message() else _KINDS.get(mime.partition("/")[0], "document")
    return Attachment(
        name=file.filename,
        mime=mime,
        kind=kind,
        size=file.size,
        read=partial(fetch, file.url, file.size),
        ref=file.url,
    )


async def fetch(url: str, size: int | None, limit: int) -> bytes:
    """Download a file up to a limit, which the SDK's `read` does not have."""
    if size is not None and size > limit:
        raise AttachmentRefused(f"it has {size:,} bytes; at most {limit:,} are accepted.")
    try:
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session, session.get(url) as answer:
            if answer.status != 200:
                raise AttachmentRefused(f"Discord no longer has it ({answer.status}); send it again.")
            return await _read_limited(answer, limit)
    except NETWORK_ERRORS as error:
        raise AttachmentRefused("it could not be downloaded from Discord; send it again.") from error


async def _read_limited(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    data = bytearray()
    async for chunk in answer.content.iter_chunked(_CHUNK):
        data += chunk
        if len(data) > limit:
            raise AttachmentRefused(f"it has more than {limit:,} bytes.")
    return bytes(data)


_MENTION = re.compile(r"<(@[!&]?|#)(\d+)>")
_EMOJI = re.compile(r"<a?(:\w+:)\d+>")
_MAX_EMBED = 500


def own_role(message: discord.Message) -> discord.Role | None:
    """Return the role that Discord creates for the bot; it has the bot's name, and people mention it by mistake."""
    return message.guild.self_role if message.guild else None


def _written_text(message: discord.Message, me: int) -> str:
    role = own_role(message)
    mine = f"<@!?{me}>" + (f"|<@&{role.id}>" if role else "")
    return resolve_mentions(re.sub(f" ?(?:{mine})", "", message.content).strip(), message)


def resolve_mentions(text: str, message: discord.Message) -> str:
    """Replace ids in mentions and emoji by the names that people see."""
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


def _extra_content(message: discord.Message) -> Iterator[str]:
    yield from (f"[sticker: {in_a_note(sticker.name)}]" for sticker in message.stickers)
    yield from _embeds(message.embeds)
    if message.poll:
        answers = " / ".join(str(answer) for answer in message.poll.answers)
        yield f"[poll: {in_a_note(f'{message.poll.question} {answers}')}]"
    for snapshot in message.message_snapshots:
        yield _forwarded(snapshot)


def _embeds(embeds: list[discord.Embed]) -> Iterator[str]:
    """Yield embeds that an author wrote, without link previews."""
    for embed in embeds:
        text = " - ".join(part for part in (embed.title, embed.description) if part)
        if embed.type == "rich" and text:
            yield f"[embed: {in_a_note(text[:_MAX_EMBED])}]"


def _forwarded(snapshot: discord.MessageSnapshot) -> str:
    """Mark forwarded text, so that it does not pass for the sender's own words."""
    parts = [snapshot.content, *(f"[sticker: {sticker.name}]" for sticker in snapshot.stickers)]
    said = "\n".join([*filter(None, parts), *_embeds(snapshot.embeds)])
    return f"[forwarded message]\n{wrap_untrusted(said)}" if said else "[forwarded message]"


_MAYBE_SPLIT_LENGTH = 1900
"""Clients split a paste near 2000 characters; a message of this length may be its first part."""

_WRITTEN_TYPES = (discord.MessageType.default, discord.MessageType.reply)


class DiscordReader:
    """Converts messages for one bot."""

    def __init__(self, me: int, commands: Sequence[Command]) -> None:
        self._me = me
        self._commands = {
            command_name(name): command for command in commands for name in (command.name, *command.aliases)
        }

    def is_relevant(self, message: discord.Message) -> bool:
        """Tell whether a person wrote the message: it is not the bot's own and not a notice of Discord."""
        return message.author.id != self._me and message.type in _WRITTEN_TYPES

    def text(self, message: discord.Message) -> str:
        parts = (_written_text(message, self._me), *_extra_content(message))
        return "\n".join(part for part in parts if part)

    def is_urgent(self, text: str) -> bool:
        command = self._command(text)
        return command is not None and command.overtakes

    def message(self, message: discord.Message, place: Place) -> ChatMessage:
        text = self.text(message)
        snapshots = message.message_snapshots
        forwarded = [attachment_of(file) for each in snapshots for file in each.attachments]
        # A forwarded voice message is not the sender's own speech.
        others = (replace(file, kind="audio") if file.kind == "voice" else file for file in forwarded)
        return ChatMessage(
            id=str(message.id),
            place=place,
            author=author_of(message.author, message.webhook_id),
            text=text,
            addressed=place.kind == "direct" or self._is_addressed(message, text),
            quote=_quote(message),
            attachments=(*map(attachment_of, message.attachments), *others),
            maybe_unfinished=len(message.content) >= _MAYBE_SPLIT_LENGTH,
            written_at=message.created_at.timestamp(),
        )

    def _is_addressed(self, message: discord.Message, text: str) -> bool:
        """Tell whether the message addresses the bot; `@everyone` does not."""
        replied_to = _replied_to(message)
        return (
            any(user.id == self._me for user in message.mentions)
            or own_role(message) in message.role_mentions
            or (replied_to is not None and replied_to.author.id == self._me)
            or self._command(text) is not None
        )

    def _command(self, text: str) -> Command | None:
        """Return the command, if the bot has it: `/play` in a server is for another bot."""
        call = parse_command(text)
        return self._commands.get(call.name) if call else None


def place_of(channel: object) -> Place:
    """Return the place of a channel. An unknown kind counts as a group, which is stricter than a direct chat."""
    if isinstance(channel, discord.DMChannel):
        return Place(str(channel.id))
    channel_id = str(getattr(channel, "id", ""))
    guild_id = getattr(channel, "guild_id", None) or getattr(getattr(channel, "guild", None), "id", "")
    if isinstance(channel, discord.Thread):
        return Place(str(channel.parent_id), thread_id=channel_id, kind="group", group_id=str(guild_id))
    return Place(channel_id, kind="group", group_id=str(guild_id))


def channel_id_of(place: Place) -> int:
    return int(place.thread_id or place.chat_id)


def author_of(user: discord.User | discord.Member, webhook_id: int | None = None) -> Author:
    """Return the author. A webhook counts as a bot."""
    return Author(str(user.id), user.display_name, is_bot=user.bot or webhook_id is not None)


def _replied_to(message: discord.Message) -> discord.Message | None:
    if message.reference is None or message.type is not discord.MessageType.reply:
        return None
    resolved = message.reference.resolved or message.reference.cached_message
    return resolved if isinstance(resolved, discord.Message) else None


def _quote(message: discord.Message) -> Quote | None:
    quoted = _replied_to(message)
    if quoted is None:
        return None
    files = [f"[file: {file.filename}]" for file in quoted.attachments]
    text = "\n".join(filter(None, (resolve_mentions(quoted.content, quoted), *files)))
    return Quote(quoted.author.display_name, text)
