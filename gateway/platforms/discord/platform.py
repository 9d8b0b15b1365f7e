"""Discord bot as a `Platform`: builds its parts and keeps it connected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from discord.gateway import DiscordWebSocket
from discord.http import Route
from yarl import URL

from agent.errors import StoreError
from gateway.chat.adapter import ChatPort, InboundHandler
from gateway.chat.errors import ConnectionRefused, Unreachable
from gateway.chat.keyed_queue import KeyedQueue
from gateway.commands import Command
from gateway.config.schema_platforms import BotConfig, DiscordBotConfig
from gateway.platforms.base import Health
from gateway.platforms.connection import ReconnectingConnection
from gateway.platforms.discord.catch_up import LastSeen
from gateway.platforms.discord.client import RESPONSE_SECONDS, BotClient
from gateway.platforms.discord.errors import (
    INTERRUPTED,
    LOGIN_MISSING,
    NO_NETWORK,
    STORE_UNAVAILABLE,
    connection_errors,
)
from gateway.platforms.discord.port import DiscordPort
from gateway.platforms.discord.spec import invite_url

_LOGIN_SECONDS = 60.0
_CLOSE_SECONDS = 5.0
_RESUME_SECONDS = 120.0
"""Time for the library to resume a session. Its delays grow to 15 minutes; those of ReconnectingConnection do not."""


class DiscordPlatform:
    """One Discord bot."""

    def __init__(
        self,
        settings: DiscordBotConfig,
        receiver_for: Callable[[ChatPort], InboundHandler],
        commands: Sequence[Command],
        *,
        bot_name: str = "",
        resume_seconds: float = _RESUME_SECONDS,
        response_seconds: float = RESPONSE_SECONDS,
    ) -> None:
        self.name = f"discord/{bot_name}" if bot_name else "discord"
        self.port = DiscordPort(self.name)
        self._settings = settings
        self._access: BotConfig = settings
        self._resume_seconds = resume_seconds
        self._response_seconds = response_seconds
        self._receiver = receiver_for(self.port)
        self._commands = commands
        self._connection = ReconnectingConnection(self.name, self._connect)
        self._seen = LastSeen()
        self._queue = KeyedQueue()
        """Events that Discord has delivered, and does not deliver again after a reconnection."""
        self._client: BotClient | None = None
        self._invitation_line = ""

    @property
    def where(self) -> str:
        return self._invitation_line or self.health.detail or "connecting"

    @property
    def health(self) -> Health:
        return self._connection.health

    def apply(self, settings: BotConfig) -> None:
        """Use a reloaded configuration: it says where to look for missed messages."""
        self._access = settings
        if self._client is not None:
            self._client.access = self._access

    async def start(self) -> None:
        await self._connection.start()

    async def stop(self) -> None:
        if self._client is not None:
            self._client.stop_listening()
        await self._queue.close(_CLOSE_SECONDS)
        await self._receiver.close()
        await self._connection.stop()

    async def _connect(self, up: Callable[[], None]) -> None:
        if self._settings.token is None:
            raise ConnectionRefused(LOGIN_MISSING)
        with use_endpoints(self._settings.api_base, self._settings.gateway_url), connection_errors():
            async with asyncio.timeout(_LOGIN_SECONDS) as deadline:
                await self._run(self._settings.token.get_secret_value(), up, deadline)

    async def _run(self, token: str, up: Callable[[], None], deadline: asyncio.Timeout) -> None:
        def on_up() -> None:
            deadline.reschedule(None)
            up()

        def on_down() -> None:
            if deadline.when() is None:
                deadline.reschedule(asyncio.get_running_loop().time() + self._resume_seconds)
            self._connection.mark_down(INTERRUPTED)

        def on_store_unavailable(error: StoreError) -> None:
            on_up()
            self._connection.mark_down(f"{STORE_UNAVAILABLE} {error}")

        async with BotClient(
            self._receiver,
            self._commands,
            self._seen,
            self._queue,
            self._access,
            on_up=on_up,
            on_down=on_down,
            on_store_unavailable=on_store_unavailable,
            response_seconds=self._response_seconds,
        ) as client:
            await client.login(token)
            self._client = self.port.client = client
            assert client.application_id is not None, "known since login"
            self._invitation_line = f"{client.user}, invite it with {invite_url(client.application_id)}"
            try:
                await client.connect()
            except AttributeError as error:
                # The library raises AttributeError if the very first connection fails.
                if client.ws is not None:
                    raise
                raise Unreachable(NO_NETWORK, maybe_done=False) from error
            finally:
                self._client = self.port.client = None


_endpoints_in_use: list[tuple[str, str]] = []


@contextmanager
def use_endpoints(api_base: str, gateway_url: str) -> Iterator[None]:
    """Use these addresses for one connection. Raises ConnectionRefused if another bot uses different ones."""
    wanted = (api_base.rstrip("/"), gateway_url)
    if _endpoints_in_use and _endpoints_in_use[0] != wanted:
        raise ConnectionRefused(
            "another Discord bot of this process uses other addresses; give all of them the same `api_base` and "
            "`gateway_url`, or run them in two processes."
        )
    _endpoints_in_use.append(wanted)
    Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY = wanted[0], URL(wanted[1])
    try:
        yield
    finally:
        _endpoints_in_use.remove(wanted)
