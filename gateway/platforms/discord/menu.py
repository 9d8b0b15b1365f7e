"""The slash commands that Discord shows. They are registered only when they differ from what Discord has."""

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
_IN_SERVERS, _WITH_THE_BOT = 0, 1
_LONGEST_NAME, _LONGEST_DESCRIPTION, _MOST_COMMANDS = 32, 100, 100

Entry = dict[str, Any]
"""A command as Discord's interface describes it."""


async def keep_menu_current(client: discord.Client, commands: Sequence[Command]) -> None:
    """Without the menu commands can still be typed as text, so a failure is only reported."""
    wanted = [_entry(command) for command in commands if _is_possible(command.name)][:_MOST_COMMANDS]
    assert client.application_id is not None, "known since login"
    try:
        registered = await client.http.get_global_commands(client.application_id)
        if _compared(registered) == _compared(wanted):
            return
        await client.http.bulk_upsert_global_commands(client.application_id, wanted)
    except SERVICE_ERRORS as error:
        log.warning("discord.commands_not_registered", error=str(error))
    else:
        log.info("discord.commands_registered", count=len(wanted))


def _entry(command: Command) -> Entry:
    return {
        "type": _COMMAND,
        "name": command.name.lower(),
        "description": _short(command.summary),
        "options": [_option(command.argument)] if _is_possible(command.argument) else [],
        "contexts": [_IN_SERVERS, _WITH_THE_BOT],
        "integration_types": [0],
    }


def _option(argument: str) -> Entry:
    return {
        "type": _TEXT,
        "name": argument.lower(),
        "description": "May be left empty.",
        "required": False,
    }


def _is_possible(name: str) -> bool:
    """One name that Discord does not take would make it refuse all of them."""
    return 0 < len(name) <= _LONGEST_NAME and all(char.isalnum() or char in "-_" for char in name)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_DESCRIPTION else text[: _LONGEST_DESCRIPTION - 1] + "…"


def _compared(entries: Iterable[Mapping[str, Any]]) -> dict[tuple[int, str], object]:
    """What we decide about a command, without what Discord adds. Their order has no meaning."""
    return {
        (entry.get("type", _COMMAND), entry["name"]): (
            entry["description"],
            [_compared_option(option) for option in entry.get("options") or ()],
            sorted(entry.get("contexts") or ()),
            sorted(entry.get("integration_types") or ()),
        )
        for entry in entries
    }


def _compared_option(option: Mapping[str, Any]) -> tuple[object, ...]:
    return option["type"], option["name"], option["description"], option.get("required", False)
