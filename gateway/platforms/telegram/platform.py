"""Telegram bot as a `Platform`: builds its parts and keeps it connected."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence

import structlog
from telegram import (
    Bot,
    BotCommand,
    BotCommandScope,
    BotCommandScopeAllGroupChats,
    BotCommandScopeAllPrivateChats,
    BotCommandScopeChat,
    BotCommandScopeDefault,
    User,
)
from telegram.constants import BotCommandLimit
from telegram.error import TelegramError

from gateway.chat.adapter import ChatPort, InboundHandler
from gateway.chat.errors import ConnectionRefused
from gateway.chat.keyed_queue import KeyedQueue
from gateway.commands import Command
from gateway.config.schema_platforms import TelegramBotConfig
from gateway.platforms.base import Health
from gateway.platforms.clients import REQUEST_SECONDS
from gateway.platforms.connection import ReconnectingConnection
from gateway.platforms.telegram.api import BotApi
from gateway.platforms.telegram.errors import connection_error, delivery_error, token_setting
from gateway.platforms.telegram.message_reader import TelegramFiles, TelegramReader
from gateway.platforms.telegram.port import TelegramPort
from gateway.platforms.telegram.updates import UpdatePoller, UpdateReceiver, WebhookServer
from gateway.types import command_name

log = structlog.get_logger(__name__)

_POLL_SECONDS = 30
_POLL_MARGIN = 15.0
"""Seconds that a poll may take beyond its timeout before the connection counts as dead."""
_WEBHOOK_CHECK_SECONDS = 60.0
_FIRST_DELAY = 1.0
"""Delay before the second connection attempt; it grows with each failure."""
_CLOSE_SECONDS = 5.0


class TelegramPlatform:
    """One Telegram bot, by polling or by webhook."""

    def __init__(
        self,
        settings: TelegramBotConfig,
        receiver_for: Callable[[ChatPort], InboundHandler],
        commands: Sequence[Command],
        *,
        bot_name: str = "",
        poll_seconds: int = _POLL_SECONDS,
        poll_margin: float = _POLL_MARGIN,
        webhook_check_seconds: float = _WEBHOOK_CHECK_SECONDS,
        webhook_request_seconds: float = REQUEST_SECONDS,
        retry_seconds: float = _FIRST_DELAY,
    ) -> None:
        self.name = f"telegram/{bot_name}" if bot_name else "telegram"
        self._bot_name = bot_name
        self._settings = settings
        self._commands = commands
        self._api = BotApi(settings.token.get_secret_value() if settings.token else "", settings.base_url)
        self.port: ChatPort = TelegramPort(self.name, self._api.bot)
        self._receiver = receiver_for(self.port)
        self._queue = KeyedQueue()
        self._connection = ReconnectingConnection(self.name, self._connect, first_delay=retry_seconds)
        self._updates = (
            WebhookServer(
                settings.webhook,
                self._connection.mark_down,
                check_seconds=webhook_check_seconds,
                request_seconds=webhook_request_seconds,
            )
            if settings.webhook.url
            else UpdatePoller(seconds=poll_seconds, margin=poll_margin)
        )
        self._account: User | None = None
        self._menu: asyncio.Task[bool] | None = None

    @property
    def where(self) -> str:
        if self._account is None:
            return self.health.detail or "connecting"
        return f"@{self._account.username}, {self._account.link}"

    @property
    def health(self) -> Health:
        return self._connection.health

    def apply(self, settings: TelegramBotConfig) -> None:
        """Use a reloaded configuration: the command menu depends on who is an admin."""
        before, self._settings = self._settings.admins, settings
        if self._menu is not None and before != self._settings.admins:
            self._menu.cancel()
            self._menu = None
            self._update_menu()

    async def start(self) -> None:
        await self._connection.start()

    async def stop(self) -> None:
        await self._connection.stop()
        if self._menu is not None:
            self._menu.cancel()
            await asyncio.wait([self._menu])
        await self._queue.close(_CLOSE_SECONDS)
        await self._receiver.close()
        await self._api.close()

    async def _connect(self, up: Callable[[], None]) -> None:
        if self._settings.token is None:
            raise ConnectionRefused("it has no token; ask @BotFather for one and set TELEGRAM_BOT_TOKEN.")
        if problem := self._settings.token_problem(self._settings.token.get_secret_value()):
            # A malformed token makes a wrong address, and the error would blame the network.
            raise ConnectionRefused(f"{problem}. Copy it again and set {token_setting(self._bot_name)}.")
        async with self._api.connection() as bot:
            try:
                await self._receive(bot, up)
            except TelegramError as error:
                raise connection_error(error, self._bot_name) from None

    async def _receive(self, bot: Bot, up: Callable[[], None]) -> None:
        """Receive updates until the connection ends."""
        self._account = await bot.get_me()
        log.info("telegram.connected", platform=self.name, bot=self._account.username, id=self._account.id)
        self._update_menu()
        names = {
            command_name(name) for command in self._commands for name in (command.name, *command.aliases)
        }
        reader = TelegramReader(self._account, names, TelegramFiles(self._api.bot))
        await self._receiver.open()
        await self._updates.run(bot, UpdateReceiver(self._receiver, reader, self._queue), up)

    def _update_menu(self) -> None:
        """Update the command menu in the background, and again at the next connection if that failed."""
        if self._menu is None or (self._menu.done() and not self._menu.result()):
            menu = update_menu(self._api.bot, self._commands, self._settings.admins)
            self._menu = asyncio.create_task(menu, name=f"{self.name} menu")


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
