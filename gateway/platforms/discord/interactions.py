"""Slash commands and buttons, in the types of `gateway/types.py`."""

from __future__ import annotations

from typing import Any

import discord

from gateway.platforms.discord.message_reader import person_of, place_of
from gateway.text.unicode import repair_surrogates
from gateway.types import ChatMessage, Press

NO_PLACE = "I cannot work in this kind of channel; use a text channel, a thread or a direct message."
NO_PERMISSION = "I may not write here; give me View Channel and Send Messages."
NO_PERMISSION_IN_THREADS = "I may not write here; give me View Channel and Send Messages in Threads."

_LONGEST_ECHO = 150


def obstacle(interaction: discord.Interaction[Any]) -> str:
    """Why a command cannot be answered here; empty if it can. Commands work even where the bot may not write."""
    if interaction.channel is None:
        return NO_PLACE
    if interaction.guild_id is None:
        return ""  # what Discord tells of permissions in a direct chat leaves writing out
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
        author=person_of(interaction.user),
        text=_typed(interaction),
    )


def echo(command: str) -> str:
    """What is left of a command in the chat: as code, so that no link in it is unfolded and nobody is named."""
    line = " ".join(repair_surrogates(command).replace("`", "'").split())
    return f"`{line if len(line) <= _LONGEST_ECHO else line[: _LONGEST_ECHO - 1] + '…'}`"


def press_of(interaction: discord.Interaction[Any]) -> Press:
    data: Any = interaction.data or {}
    return Press(
        place=place_of(interaction.channel),
        author=person_of(interaction.user),
        message_id=str(interaction.message.id) if interaction.message else "",
        data=str(data.get("custom_id", "")),
    )


def _typed(interaction: discord.Interaction[Any]) -> str:
    """What the person would have typed: `/compress billing`."""
    data: Any = interaction.data or {}
    values = [str(option["value"]) for option in data.get("options", ()) if "value" in option]
    return " ".join([f"/{data.get('name', '')}", *values]).strip()
