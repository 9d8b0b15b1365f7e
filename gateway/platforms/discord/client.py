"""The bot's connection: hands what Discord delivers to the desk."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import discord
import structlog

from gateway.chat.contract import ChatDesk, ChatMessage
from gateway.commands import Command
from gateway.platforms.discord.errors import SERVICE_ERRORS
from gateway.platforms.discord.inbound import Reader, command_message, place_of, press_of
from gateway.platforms.discord.lanes import Lanes
from gateway.platforms.discord.last_seen import LastSeen
from gateway.platforms.discord.menu import keep_menu_current
from gateway.platforms.discord.port import LIMIT, NOBODY

log = structlog.get_logger(__name__)

INTENTS = discord.Intents(guilds=True, messages=True, message_content=True)

_LONGEST_SLEEP = 30.0
"""Pauses up to this the library makes itself; longer ones become SlowDown. It allows no shorter."""

_GUILDS_SECONDS = 0.1
"""What the library waits for more servers to arrive. Nothing here waits for that."""

_MOST_MISSED = 100
"""Messages of one channel that are fetched after an interruption."""


class BotClient(discord.Client):
    """One connection. It mends short interruptions itself; after its end another is made."""

    def __init__(
        self,
        desk: ChatDesk,
        commands: Sequence[Command],
        seen: LastSeen,
        *,
        up: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        _quieten_library()
        super().__init__(
            intents=INTENTS,
            allowed_mentions=NOBODY,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            guild_ready_timeout=_GUILDS_SECONDS,
            max_ratelimit_timeout=_LONGEST_SLEEP,
        )
        self._desk = desk
        self._commands = commands
        self._seen = seen
        self._tell_up, self._tell_lost = up, lost
        self._reader = Reader(0, commands)
        self._menu: asyncio.Task[None] | None = None
        self._lanes = Lanes()
        self._listens = True

    async def stop_listening(self, seconds: float) -> None:
        """Nothing more is taken in; what is being taken in gets some time. Sending goes on."""
        self._listens = False
        await self._lanes.empty(seconds)

    async def setup_hook(self) -> None:
        assert self.user is not None, "known since login"
        self._reader = Reader(self.user.id, self._commands)
        self._menu = asyncio.create_task(keep_menu_current(self, self._commands), name="discord menu")

    async def close(self) -> None:
        if self._menu is not None:
            self._menu.cancel()
        await super().close()

    async def on_connect(self) -> None:
        """A session that begins anew, unlike one that is resumed, does not tell what was missed."""
        missed = self._seen.by_channel()
        self._tell_up()
        await asyncio.gather(*(self._catch_up(channel_id, last) for channel_id, last in missed.items()))

    async def on_resumed(self) -> None:
        self._tell_up()

    async def on_disconnect(self) -> None:
        self._tell_lost()

    async def on_message(self, message: discord.Message) -> None:
        if self._concerns(message):
            async with self._turn(message.channel.id, self._reader.words(message)):
                await self._hand_in(message)

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        """The preview of a link, a pin or a thread also counts as an edit for Discord; for us only new words do."""
        message, before = payload.message, payload.cached_message
        is_changed = before.content != message.content if before else message.edited_at is not None
        if is_changed and self._concerns(message):
            async with self._turn(message.channel.id, self._reader.words(message)):
                await self._desk.edited(await self._read(message))

    async def on_interaction(self, interaction: discord.Interaction[Any]) -> None:
        try:
            if not self._listens:
                return
            if interaction.type is discord.InteractionType.application_command:
                await self._command(interaction)
            elif interaction.type is discord.InteractionType.component:
                await self._press(interaction)
        except SERVICE_ERRORS as error:
            log.warning("discord.interaction_not_answered", interaction=interaction.id, error=str(error))

    async def on_error(self, event_method: str, /, *args: object, **kwargs: object) -> None:
        error = sys.exception()
        await asyncio.to_thread(log.error, "discord.event_failed", event_name=event_method, exc_info=error)

    async def _command(self, interaction: discord.Interaction[Any]) -> None:
        """Acknowledged at once, for Discord waits three seconds; the answer follows as an ordinary message."""
        deferred = await interaction.response.defer(thinking=True)
        message_id = deferred.message_id if deferred else None
        command = command_message(interaction, message_id or interaction.id)
        try:
            async with self._turn(int(command.place.thread_id or command.place.chat_id), command.text):
                await self._desk.message(command)
        finally:
            await interaction.edit_original_response(content=command.text[:LIMIT], allowed_mentions=NOBODY)

    async def _press(self, interaction: discord.Interaction[Any]) -> None:
        await interaction.response.defer(ephemeral=True, thinking=True)
        sentence = await self._desk.pressed(press_of(interaction))
        await interaction.edit_original_response(content=sentence, allowed_mentions=NOBODY)

    async def _catch_up(self, channel_id: int, last: int) -> None:
        """What is delivered as well meanwhile comes twice; the desk knows a message it has seen."""
        try:
            async with self._turn(channel_id):
                channel = await self.fetch_channel(channel_id)
                if not isinstance(channel, discord.abc.Messageable):
                    return
                after = discord.Object(last)
                async for message in channel.history(after=after, oldest_first=True, limit=_MOST_MISSED):
                    if self._concerns(message):
                        await self._hand_in(message)
        except SERVICE_ERRORS as error:
            log.warning("discord.missed_messages_not_fetched", channel=channel_id, error=str(error))

    async def _hand_in(self, message: discord.Message) -> None:
        self._seen.note(message.channel.id, message.id)
        await self._desk.message(await self._read(message))

    async def _read(self, message: discord.Message) -> ChatMessage:
        channel: object = message.channel
        if isinstance(channel, discord.PartialMessageable):
            # A thread that is not in the cache would pass for a channel.
            with suppress(*SERVICE_ERRORS):
                channel = await self.fetch_channel(message.channel.id)
        return self._reader.message(message, place_of(channel))

    def _concerns(self, message: discord.Message) -> bool:
        return self._listens and self._reader.concerns(message)

    def _turn(self, channel_id: int, text: str = "") -> AbstractAsyncContextManager[None]:
        """`/stop` and its like must not wait for what is still being accepted."""
        return self._lanes.turn(channel_id, overtakes=self._reader.overtakes(text))


def _quieten_library() -> None:
    """Below WARNING it writes down whole events. Its client reports failures that are reported here already, and
    each interruption with a traceback."""
    logging.getLogger("discord").setLevel(logging.WARNING)
    logging.getLogger("discord.client").setLevel(logging.CRITICAL)
