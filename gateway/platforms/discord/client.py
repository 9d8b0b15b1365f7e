"""The bot's connection: hands what Discord delivers to the desk."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import aiohttp
import discord
import structlog

from agent.errors import StoreError
from gateway.chat.contract import ChatDesk, ChatMessage, Place
from gateway.chat.lines import Job, Lines
from gateway.commands import Command
from gateway.config.platforms import BotConfig
from gateway.platforms.discord.errors import SERVICE_ERRORS
from gateway.platforms.discord.inbound import Reader, place_of
from gateway.platforms.discord.interactions import command_message, echo, obstacle, press_of
from gateway.platforms.discord.last_seen import LastSeen
from gateway.platforms.discord.menu import keep_menu_current
from gateway.platforms.discord.missed import Channel, Missed
from gateway.platforms.discord.port import NOBODY
from gateway.text.characters import whole_characters

log = structlog.get_logger(__name__)

INTENTS = discord.Intents(guilds=True, messages=True, message_content=True)

_LONGEST_SLEEP = 30.0
"""Pauses up to this the library makes itself; longer ones become SlowDown. It allows no shorter."""

_REQUEST_SECONDS = 300.0
ANSWER_SECONDS = 30.0
"""From the end of a request to its answer. The library would wait as long as for the whole, and everything else that is
to be shown in the chat with it."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
"""Between attempts to keep a message while the store refuses."""

_GUILDS_SECONDS = 0.1
"""What the library waits for more servers to arrive. One that comes later is looked through later."""


class BotClient(discord.Client):
    """One connection. It mends short interruptions itself; after its end another is made."""

    def __init__(
        self,
        desk: ChatDesk,
        commands: Sequence[Command],
        seen: LastSeen,
        settings: BotConfig,
        *,
        up: Callable[[], None],
        lost: Callable[[], None],
        answer_seconds: float = ANSWER_SECONDS,
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
        # Cancelling a call from outside would do as well, but not in the pause of a global limit: the library would
        # never end it.
        patience = aiohttp.ClientTimeout(_REQUEST_SECONDS, sock_read=answer_seconds)
        self.http.request = partial(self.http.request, timeout=patience)  # type: ignore[method-assign]
        self._desk = desk
        self._commands = commands
        self._seen = seen
        self._settings = settings
        self._missed: Missed | None = None
        self._has_begun = asyncio.Event()
        """Set once a new session knows where it has to look for what was missed."""
        self._is_complete = asyncio.Event()
        """Set once that stands in line, before what comes now."""
        self._tell_up, self._tell_lost = up, lost
        self._reader = Reader(0, commands)
        self._menu: asyncio.Task[None] | None = None
        self._lines = Lines()
        self._listens = True

    async def stop_listening(self, seconds: float) -> None:
        """Nothing more is taken in; what is being taken in gets some time. Sending goes on."""
        self._listens = False
        await self._lines.close(seconds)

    async def setup_hook(self) -> None:
        assert self.user is not None, "known since login"
        self._reader = Reader(self.user.id, self._commands)
        self._menu = asyncio.create_task(keep_menu_current(self, self._commands), name="discord menu")

    async def close(self) -> None:
        if self._menu is not None:
            self._menu.cancel()
        self._has_begun.set()
        self._is_complete.set()
        await super().close()

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
        """The library tells of READY a moment late and stumbles if it has been closed meanwhile."""
        if not self.is_closed():
            super().dispatch(event, *args, **kwargs)

    async def on_connect(self) -> None:
        """A session that begins anew, unlike one that is resumed, does not tell what was missed."""
        self._has_begun.clear()
        self._is_complete.clear()
        self._tell_up()
        await self._seen.begin(self._desk)
        self._missed = missed = Missed(self, self._seen.copy(), self._settings)
        for place in missed.known_direct_chats():
            await self._catch_up(missed, place)
        self._has_begun.set()
        async for place in missed.other_direct_chats():
            await self._catch_up(missed, place)

    async def on_guild_available(self, guild: discord.Guild) -> None:
        await self._has_begun.wait()
        if self._missed is None:  # closed meanwhile
            return
        for channel in self._missed.channels_of(guild):
            await self._catch_up(self._missed, place_of(channel), channel)

    async def on_ready(self) -> None:
        for guild in self.guilds:  # those of which it was not told yet that they are there
            await self.on_guild_available(guild)
        self._is_complete.set()

    async def on_resumed(self) -> None:
        self._tell_up()

    async def on_disconnect(self) -> None:
        self._tell_lost()

    async def on_message(self, message: discord.Message) -> None:
        if self._concerns(message):
            await self._stand_in_line(message, partial(self._hand_in, message))

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        """The preview of a link, a pin or a thread also counts as an edit for Discord; for us only new words do."""
        message, before = payload.message, payload.cached_message
        is_changed = before.content != message.content if before else message.edited_at is not None
        if is_changed and self._concerns(message):
            await self._stand_in_line(message, partial(self._hand_in_edit, message))

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
        if sentence := obstacle(interaction):
            await interaction.response.send_message(sentence, ephemeral=True)
            return
        deferred = await interaction.response.defer(thinking=True)
        message_id = deferred.message_id if deferred else None
        command = command_message(interaction, message_id or interaction.id)
        if await self._take_in_line(command):
            await interaction.edit_original_response(content=echo(command.text), allowed_mentions=NOBODY)
        else:
            await interaction.delete_original_response()

    async def _press(self, interaction: discord.Interaction[Any]) -> None:
        await interaction.response.defer(ephemeral=True, thinking=True)
        sentence = whole_characters(await self._desk.pressed(press_of(interaction)))
        await interaction.edit_original_response(content=sentence, allowed_mentions=NOBODY)

    # -- in the order in which it came: every event is a task of its own ------------------------------------

    async def _stand_in_line(self, message: discord.Message, job: Job) -> None:
        text = self._reader.words(message)
        if not self._reader.overtakes(text):
            await self._is_complete.wait()
        if self._listens:
            await self._line_up(message.channel.id, text, job)

    async def _line_up(self, channel_id: int, text: str, job: Job) -> None:
        """`/stop` and its like must not wait for what is still being accepted."""
        if self._reader.overtakes(text):
            await job()
        else:
            self._lines.put(channel_id, job)

    async def _take_in_line(self, command: ChatMessage) -> bool:
        """Whether its author may speak here."""
        welcome: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        async def hand_in() -> None:
            try:
                welcome.set_result(await self._take(command))
            finally:
                if not welcome.done():
                    welcome.set_result(False)

        channel_id = int(command.place.thread_id or command.place.chat_id)
        await self._line_up(channel_id, command.text, hand_in)
        return await welcome

    async def _catch_up(self, missed: Missed, place: Place, channel: Channel | None = None) -> None:
        """A direct chat is not in the library's memory, so its place is told."""
        where = channel or self.get_partial_messageable(int(place.chat_id))

        async def hand_in_missed() -> None:
            for message in await missed.messages(where, place):
                if self._concerns(message):
                    await self._take(self._reader.message(message, place))

        await self._line_up(where.id, "", hand_in_missed)

    # -- to the desk ----------------------------------------------------------------------------------------

    async def _hand_in(self, message: discord.Message) -> None:
        await self._take(await self._read(message))

    async def _hand_in_edit(self, message: discord.Message) -> None:
        await self._desk.edited(await self._read(message))

    async def _take(self, message: ChatMessage) -> bool:
        welcome = await self._kept(message)
        if welcome:
            self._seen.note(message.place, int(message.id))
        return welcome

    async def _kept(self, message: ChatMessage) -> bool:
        """Discord delivers a message once, so the line waits here until it can be kept."""
        pause = _FIRST_PAUSE
        while True:
            try:
                return await self._desk.message(message)
            except StoreError as error:
                log.warning("discord.not_kept", error=type(error).__name__, seconds=pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _read(self, message: discord.Message) -> ChatMessage:
        channel: object = message.channel
        if isinstance(channel, discord.PartialMessageable):
            # A thread that is not in the cache would pass for a channel.
            with suppress(*SERVICE_ERRORS):
                channel = await self.fetch_channel(message.channel.id)
        return self._reader.message(message, place_of(channel))

    def _concerns(self, message: discord.Message) -> bool:
        return self._listens and self._reader.concerns(message)


def _quieten_library() -> None:
    """Below WARNING it writes down whole events. Its client reports failures that are reported here already, and
    each interruption with a traceback."""
    logging.getLogger("discord").setLevel(logging.WARNING)
    logging.getLogger("discord.client").setLevel(logging.CRITICAL)
    # Its count of how far a connection is behind is off by a heartbeat; what is really lost ends the connection.
    logging.getLogger("discord.gateway").setLevel(logging.ERROR)
