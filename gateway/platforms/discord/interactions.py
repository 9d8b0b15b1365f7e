"""Reads slash commands and presses into `ChatMessage` and `Press`."""

from __future__ import annotations

from typing import Any

import discord

from gateway.platforms.discord.message_reader import author_of, place_of
from gateway.text.unicode import repair_surrogates
from gateway.types import ChatMessage, Press

NO_PLACE = "I cannot answer in this kind of channel; use a text channel, a thread or a direct message."
NO_PERMISSION = "I may not write here; give me View Channel and Send Messages."
NO_PERMISSION_IN_THREADS = "I may not write here; give me View Channel and Send Messages in Threads."

_MAX_ECHO = 150


def interaction_problem(interaction: discord.Interaction[Any]) -> str:
    """Say why the bot cannot answer here; empty if it can. Discord offers commands also where the bot may not write."""
    if interaction.channel is None:
        return NO_PLACE
    if interaction.guild_id is None:
        return ""  # in a direct chat, the permissions that Discord sends omit writing
    may = interaction.app_permissions
    if may.administrator:
        return ""
    if isinstance(interaction.channel, discord.Thread):
        return "" if may.view_channel and may.send_messages_in_threads else NO_PERMISSION_IN_THREADS
    return "" if may.view_channel and may.send_messages else NO_PERMISSION


def command_message(interaction: discord.Interaction[Any], message_id: int) -> ChatMessage:
    return ChatMessage(
        id=str(message_id),
        place=place_of(interaction.channel),
        author=author_of(interaction.user),
        text=_command_text(interaction),
    )


def echo(command: str) -> str:
    """Return the command as shown in the chat: as code, without link previews and mentions."""
    line = " ".join(repair_surrogates(command).replace("`", "'").split())
    return f"`{line if len(line) <= _MAX_ECHO else line[: _MAX_ECHO - 1] + '…'}`"


def press_of(interaction: discord.Interaction[Any]) -> Press:
    data: Any = interaction.data or {}
    return Press(
        place=place_of(interaction.channel),
        author=author_of(interaction.user),
        message_id=str(interaction.message.id) if interaction.message else "",
        data=str(data.get("custom_id", "")),
    )


def _command_text(interaction: discord.Interaction[Any]) -> str:
    """Return the command as text: `/compress billing`."""
    data: Any = interaction.data or {}
    values = [str(option["value"]) for option in data.get("options", ()) if "value" in option]
    return " ".join([f"/{data.get('name', '')}", *values]).strip()
