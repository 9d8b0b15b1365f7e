"""A Discord bot as a platform."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import discord

from agent.errors import StoreError
from gateway.chat.adapter import ChatPort, InboundHandler
from gateway.chat.errors import ConnectionRefused, Unreachable
from gateway.chat.keyed_queue import KeyedQueue
from gateway.commands import Command
from gateway.config.schema_platforms import BotConfig, DiscordBotConfig
from gateway.platforms.base import Health
from gateway.platforms.connection import ReconnectingConnection
from gateway.platforms.discord.catch_up import LastSeen
from gateway.platforms.discord.client import ANSWER_SECONDS, BotClient
from gateway.platforms.discord.endpoints import discord_at
from gateway.platforms.discord.errors import DEAF, INTERRUPTED, LOGIN_MISSING, NO_NETWORK, connection_errors
from gateway.platforms.discord.port import DiscordPort
from gateway.platforms.discord.spec import PERMISSIONS, SCOPES

_LOGIN_SECONDS = 60.0
_CLOSING_SECONDS = 5.0
_MENDING_SECONDS = 120.0
"""What the library gets to resume an interrupted session. Its pauses grow up to a quarter of an hour; ours do not."""


class DiscordPlatform:
    """Keeps one bot connected."""

    def __init__(
        self,
        settings: DiscordBotConfig,
        desk_for: Callable[[ChatPort], InboundHandler],
        commands: Sequence[Command],
        *,
        bot_name: str = "",
        mending_seconds: float = _MENDING_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self.name = f"discord/{bot_name}" if bot_name else "discord"
        self.port = DiscordPort(self.name)
        self._settings = settings
        self._access: BotConfig = settings
        self._mending_seconds = mending_seconds
        self._answer_seconds = answer_seconds
        self._desk = desk_for(self.port)
        self._commands = commands
        self._supervised = ReconnectingConnection(self.name, self._connect)
        self._seen = LastSeen()
        self._lines = KeyedQueue()
        """What stands there was delivered, and is not again after a reconnection."""
        self._client: BotClient | None = None
        self._introduction = ""

    @property
    def where(self) -> str:
        return self._introduction or self.health.detail or "connecting"

    @property
    def health(self) -> Health:
        return self._supervised.health

    def apply(self, settings: BotConfig) -> None:
        """Use a reloaded configuration: it says where to look for missed messages."""
        self._access = settings
        if self._client is not None:
            self._client.access = self._access

    async def start(self) -> None:
        await self._supervised.start()

    async def stop(self) -> None:
        if self._client is not None:
            self._client.stop_listening()
        await self._lines.close(_CLOSING_SECONDS)
        await self._desk.close()
        await self._supervised.stop()

    async def _connect(self, up: Callable[[], None]) -> None:
        if self._settings.token is None:
            raise ConnectionRefused(LOGIN_MISSING)
        with discord_at(self._settings.api_base, self._settings.gateway_url), connection_errors():
            async with asyncio.timeout(_LOGIN_SECONDS) as patience:
                await self._run(self._settings.token.get_secret_value(), up, patience)

    async def _run(self, token: str, up: Callable[[], None], patience: asyncio.Timeout) -> None:
        def is_up() -> None:
            patience.reschedule(None)
            up()

        def is_lost() -> None:
            if patience.when() is None:
                patience.reschedule(asyncio.get_running_loop().time() + self._mending_seconds)
            self._supervised.lost(INTERRUPTED)

        def is_deaf(error: StoreError) -> None:
            is_up()
            self._supervised.lost(f"{DEAF} {error}")

        async with BotClient(
            self._desk,
            self._commands,
            self._seen,
            self._lines,
            self._access,
            up=is_up,
            lost=is_lost,
            deaf=is_deaf,
            answer_seconds=self._answer_seconds,
        ) as client:
            await client.login(token)
            self._client = self.port.client = client
            self._introduction = _introduction(client)
            try:
                await client.connect()
            except AttributeError as error:
                # The library trips over its own feet if the very first connection fails.
                if client.ws is not None:
                    raise
                raise Unreachable(NO_NETWORK, maybe_done=False) from error
            finally:
                self._client = self.port.client = None


def _introduction(client: discord.Client) -> str:
    assert client.application_id is not None, "known since login"
    invitation = discord.utils.oauth_url(
        client.application_id, permissions=discord.Permissions(PERMISSIONS), scopes=SCOPES
    )
    return f"{client.user}, to be invited with {invitation}"
