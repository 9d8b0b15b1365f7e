"""Slash commands and buttons of Discord: the registered commands, and the interactions they send."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import discord
import structlog

from gateway.commands import Command
from gateway.platforms.discord.errors import SERVICE_ERRORS
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


log = structlog.get_logger(__name__)

_COMMAND: Final = 1
_TEXT: Final = 3
_IN_SERVERS, _IN_DIRECT_CHATS = 0, 1
_MAX_NAME, _MAX_DESCRIPTION, _MAX_COMMANDS = 32, 100, 100

MenuEntry = dict[str, Any]
"""A command in Discord's format."""


async def update_menu(client: discord.Client, commands: Sequence[Command]) -> None:
    """Register the commands. A failure is only logged: commands can also be typed as text."""
    wanted = [_entry(command) for command in commands if _is_valid_name(command.name)][:_MAX_COMMANDS]
    assert client.application_id is not None, "known since login"
    try:
        registered = await client.http.get_global_commands(client.application_id)
        if _comparable(registered) == _comparable(wanted):
            return
        await client.http.bulk_upsert_global_commands(client.application_id, wanted)
    except SERVICE_ERRORS as error:
        log.warning("discord.commands_not_registered", error=str(error))
    else:
        log.info("discord.commands_registered", count=len(wanted))


def _entry(command: Command) -> MenuEntry:
    name = command.argument.lower()
    option = {"type": _TEXT, "name": name, "description": "Optional.", "required": False}
    return {
        "type": _COMMAND,
        "name": command.name.lower(),
        "description": _shorten(command.summary),
        "options": [option] if _is_valid_name(command.argument) else [],
        "contexts": [_IN_SERVERS, _IN_DIRECT_CHATS],
        "integration_types": [0],
    }


def _is_valid_name(name: str) -> bool:
    """Check a name: one invalid name makes Discord refuse all commands."""
    return 0 < len(name) <= _MAX_NAME and all(char.isalnum() or char in "-_" for char in name)


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_DESCRIPTION else text[: _MAX_DESCRIPTION - 1] + "…"


def _comparable(entries: Iterable[Mapping[str, Any]]) -> dict[tuple[int, str], object]:
    """Return the commands without the fields that Discord adds, in no order."""
    return {
        (entry.get("type", _COMMAND), entry["name"]): (
            entry["description"],
            [
                (option["type"], option["name"], option["description"], option.get("required", False))
                for option in entry.get("options") or ()
            ],
            sorted(entry.get("contexts") or ()),
            sorted(entry.get("integration_types") or ()),
        )
        for entry in entries
    }
