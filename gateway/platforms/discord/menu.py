"""Command menu: registers slash commands with Discord when they differ from the registered ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import discord
import structlog

from gateway.commands import Command
from gateway.platforms.discord.errors import SERVICE_ERRORS

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
    return {
        "type": _COMMAND,
        "name": command.name.lower(),
        "description": _shorten(command.summary),
        "options": [_option(command.argument)] if _is_valid_name(command.argument) else [],
        "contexts": [_IN_SERVERS, _IN_DIRECT_CHATS],
        "integration_types": [0],
    }


def _option(argument: str) -> MenuEntry:
    return {
        "type": _TEXT,
        "name": argument.lower(),
        "description": "Optional.",
        "required": False,
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
            [_comparable_option(option) for option in entry.get("options") or ()],
            sorted(entry.get("contexts") or ()),
            sorted(entry.get("integration_types") or ()),
        )
        for entry in entries
    }


def _comparable_option(option: Mapping[str, Any]) -> tuple[object, ...]:
    return option["type"], option["name"], option["description"], option.get("required", False)
