"""Command menu: the list that Telegram's clients offer behind the `/` button."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import structlog
from telegram import (
    Bot,
    BotCommand,
    BotCommandScope,
    BotCommandScopeAllGroupChats,
    BotCommandScopeAllPrivateChats,
    BotCommandScopeChat,
    BotCommandScopeDefault,
)
from telegram.constants import BotCommandLimit
from telegram.error import TelegramError

from gateway.commands import Command
from gateway.platforms.telegram.errors import delivery_error

log = structlog.get_logger(__name__)

_VALID_NAME = re.compile(r"[a-z0-9_]{1,32}")


async def update_menu(bot: Bot, commands: Sequence[Command], admins: Iterable[str]) -> bool:
    """Update the command lists that differ; False if one of them failed."""
    public = _entries(command for command in commands if not command.for_admins)
    lists: list[tuple[BotCommandScope, list[BotCommand]]] = [
        (BotCommandScopeDefault(), public),
        (BotCommandScopeAllPrivateChats(), public),
        (BotCommandScopeAllGroupChats(), public),
        *((BotCommandScopeChat(int(admin)), _entries(commands)) for admin in admins),
    ]
    return all([await _update(bot, scope, entries) for scope, entries in lists])


async def _update(bot: Bot, scope: BotCommandScope, entries: list[BotCommand]) -> bool:
    try:
        if list(await bot.get_my_commands(scope=scope)) != entries:
            await bot.set_my_commands(entries, scope=scope)
            log.info("telegram.menu_changed", scope=scope.type, commands=len(entries))
    except TelegramError as error:
        # Commands work without a menu, and an admin who never wrote to the bot cannot have one yet.
        log.info("telegram.menu_not_shown", scope=scope.type, detail=str(delivery_error(error)))
        return False
    return True


def _entries(commands: Iterable[Command]) -> list[BotCommand]:
    entries = [
        BotCommand(name, _description(command)[: BotCommandLimit.MAX_DESCRIPTION])
        for command in commands
        if _VALID_NAME.fullmatch(name := command.name.lower().replace("-", "_"))
    ]
    return entries[: BotCommandLimit.MAX_COMMAND_NUMBER]


def _description(command: Command) -> str:
    return f"[{command.argument}] {command.summary}" if command.argument else command.summary
