"""A Discord message as plain words: mentions by name, and a line for what is no text."""

from __future__ import annotations

import re
from collections.abc import Iterator

import discord

from agent.untrusted import in_a_note, wrap_untrusted

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
