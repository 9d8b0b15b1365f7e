"""A Telegram bot: keeps its connection up and puts the parts together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog
from telegram import Bot, User
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
from gateway.platforms.telegram.attachments import Files
from gateway.platforms.telegram.errors import connection_failure, token_place
from gateway.platforms.telegram.menu import show_menu
from gateway.platforms.telegram.message_reader import Reader
from gateway.platforms.telegram.port import TelegramPort
from gateway.platforms.telegram.updates import Intake, Polling
from gateway.platforms.telegram.webhook import Webhook
from gateway.types import command_name

log = structlog.get_logger(__name__)

_POLL_SECONDS = 30
_POLL_MARGIN = 15.0
"""How much longer than asked for a poll may take before its connection is given up."""
_WEBHOOK_CHECK_SECONDS = 60.0
_RETRY_SECONDS = 1.0
"""Before the second connection; longer and longer before the ones that follow."""
_CLOSING_SECONDS = 5.0


class TelegramPlatform:
    """A `Platform`."""

    def __init__(
        self,
        settings: TelegramBotConfig,
        desk_for: Callable[[ChatPort], InboundHandler],
        commands: Sequence[Command],
        *,
        bot_name: str = "",
        poll_seconds: int = _POLL_SECONDS,
        poll_margin: float = _POLL_MARGIN,
        webhook_check_seconds: float = _WEBHOOK_CHECK_SECONDS,
        webhook_request_seconds: float = REQUEST_SECONDS,
        retry_seconds: float = _RETRY_SECONDS,
    ) -> None:
        self.name = f"telegram/{bot_name}" if bot_name else "telegram"
        self._bot_name = bot_name
        self._settings = settings
        self._commands = commands
        self._api = BotApi(settings.token.get_secret_value() if settings.token else "", settings.base_url)
        self.port: ChatPort = TelegramPort(self.name, self._api.bot)
        self._desk = desk_for(self.port)
        self._lines = KeyedQueue()
        self._supervised = ReconnectingConnection(self.name, self._connect, first_pause=retry_seconds)
        self._source = (
            Webhook(
                settings.webhook,
                self._supervised.lost,
                check_seconds=webhook_check_seconds,
                request_seconds=webhook_request_seconds,
            )
            if settings.webhook.url
            else Polling(seconds=poll_seconds, margin=poll_margin)
        )
        self._me: User | None = None
        self._menu: asyncio.Task[bool] | None = None

    @property
    def where(self) -> str:
        if self._me is None:
            return self.health.detail or "connecting"
        return f"@{self._me.username}, {self._me.link}"

    @property
    def health(self) -> Health:
        return self._supervised.health

    def apply(self, settings: TelegramBotConfig) -> None:
        """Use a reloaded configuration: the command menu depends on who is an admin."""
        before, self._settings = self._settings.admins, settings
        if self._menu is not None and before != self._settings.admins:
            self._menu.cancel()
            self._menu = None
            self._bring_menu()

    async def start(self) -> None:
        await self._supervised.start()

    async def stop(self) -> None:
        await self._supervised.stop()
        if self._menu is not None:
            self._menu.cancel()
            await asyncio.wait([self._menu])
        await self._lines.close(_CLOSING_SECONDS)
        await self._desk.close()
        await self._api.close()

    async def _connect(self, up: Callable[[], None]) -> None:
        if self._settings.token is None:
            raise ConnectionRefused("it has no token; ask @BotFather for one and set TELEGRAM_BOT_TOKEN.")
        if problem := self._settings.token_problem(self._settings.token.get_secret_value()):
            # Such a token makes addresses that lead nowhere, and the network would be blamed for it.
            raise ConnectionRefused(f"{problem}. Copy it again and set {token_place(self._bot_name)}.")
        async with self._api.connection() as bot:
            try:
                await self._receive(bot, up)
            except TelegramError as error:
                raise connection_failure(error, self._bot_name) from None

    async def _receive(self, bot: Bot, up: Callable[[], None]) -> None:
        """Until the connection ends."""
        self._me = await bot.get_me()
        log.info("telegram.connected", platform=self.name, bot=self._me.username, id=self._me.id)
        self._bring_menu()
        names = {
            command_name(name) for command in self._commands for name in (command.name, *command.aliases)
        }
        reader = Reader(self._me, names, Files(self._api.bot))
        await self._desk.open()
        await self._source.run(bot, Intake(self._desk, reader, self._lines), up)

    def _bring_menu(self) -> None:
        """Beside the work, and again at the next connection if it did not succeed."""
        if self._menu is None or (self._menu.done() and not self._menu.result()):
            menu = show_menu(self._api.bot, self._commands, self._settings.admins)
            self._menu = asyncio.create_task(menu, name=f"{self.name} menu")
