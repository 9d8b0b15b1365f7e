"""Discord client: passes events to the receiver in order, and catches up on missed messages."""

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
from gateway.chat.adapter import InboundHandler
from gateway.chat.keyed_queue import Job, KeyedQueue, run_job
from gateway.commands import Command
from gateway.config.schema_platforms import BotConfig
from gateway.core.retry import retry_store
from gateway.platforms.discord.catch_up import Channel, LastSeen, MissedMessages
from gateway.platforms.discord.errors import CLOSED_CLIENT_ERRORS, GONE_ERRORS, SERVICE_ERRORS
from gateway.platforms.discord.interactions import (
    command_message,
    echo,
    interaction_problem,
    press_of,
    update_menu,
)
from gateway.platforms.discord.message_reader import DiscordReader, channel_id_of, place_of
from gateway.platforms.discord.port import NO_MENTIONS
from gateway.text.unicode import repair_surrogates
from gateway.types import ChatMessage, Place

log = structlog.get_logger(__name__)

INTENTS = discord.Intents(guilds=True, messages=True, message_content=True)

_MAX_LIBRARY_SLEEP = 30.0
"""Longest rate-limit delay that the library waits itself, its minimum; a longer one becomes SlowDown."""

_REQUEST_SECONDS = 300.0
RESPONSE_SECONDS = 30.0
"""Time from the end of a request to its response. Without it the library waits for the whole request timeout, and
delays everything else in the chat."""

_FIRST_DELAY, _MAX_DELAY = 0.5, 15.0
"""Delays between attempts while the store or Discord fails."""

_OTHER_CHATS_SECONDS = 5.0
"""Time limit for opening direct chats with people who have not written yet."""

_GUILDS_SECONDS = 0.1
"""Time that the library waits for more servers. A server that arrives later is caught up later."""


class BotClient(discord.Client):
    """One connection. The library resumes it after a short interruption; after its end a new client is made."""

    def __init__(
        self,
        receiver: InboundHandler,
        commands: Sequence[Command],
        seen: LastSeen,
        queue: KeyedQueue,
        access: BotConfig,
        *,
        on_up: Callable[[], None],
        on_down: Callable[[], None],
        on_store_unavailable: Callable[[StoreError], None],
        response_seconds: float = RESPONSE_SECONDS,
    ) -> None:
        _configure_library_logs()
        super().__init__(
            intents=INTENTS,
            allowed_mentions=NO_MENTIONS,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            guild_ready_timeout=_GUILDS_SECONDS,
            max_ratelimit_timeout=_MAX_LIBRARY_SLEEP,
        )
        # Not by cancelling the call: in the delay of a global rate limit, the library would never end it.
        timeout = aiohttp.ClientTimeout(_REQUEST_SECONDS, sock_read=response_seconds)
        self.http.request = partial(self.http.request, timeout=timeout)  # type: ignore[method-assign]
        self._receiver = receiver
        self._commands = commands
        self._seen = seen
        self.access = access
        self._session = 0
        """Number of the current session; a resumed session keeps its number."""
        self._missed_messages: MissedMessages | None = None
        self._session_started = asyncio.Event()
        """Set once a new session knows where to look for missed messages."""
        self._caught_up = asyncio.Event()
        """Set once the missed messages are queued, ahead of new ones."""
        self._order_lock = asyncio.Lock()
        """Keeps events in order of arrival: tasks that wait for an event wake in any order."""
        self._on_up, self._on_down, self._on_store_unavailable = on_up, on_down, on_store_unavailable
        self._store_error: StoreError | None = None
        """Error that keeps the session from starting."""
        self._closing = asyncio.Event()
        self._unread_channels: set[int] = set()
        """Channels whose missed messages were not read before the connection ended."""
        self._pending_commands: set[asyncio.Future[bool]] = set()
        """Commands that wait for the verdict of the gate."""
        self._reader = DiscordReader(0, commands)
        self._menu: asyncio.Task[None] | None = None
        self._queue = queue
        self._is_listening = True

    def stop_listening(self) -> None:
        """Receive only what is already queued. Sending continues."""
        self._is_listening = False

    async def setup_hook(self) -> None:
        assert self.user is not None, "known since login"
        self._reader = DiscordReader(self.user.id, self._commands)
        self._menu = asyncio.create_task(update_menu(self, self._commands), name="discord menu")

    async def close(self) -> None:
        if self._menu is not None:
            self._menu.cancel()
        self._session_started.set()
        self._caught_up.set()
        self._closing.set()
        for is_allowed in self._pending_commands:
            is_allowed.cancel()
        await super().close()

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
        """Ignore events of a closed client: the library dispatches READY late and would fail."""
        if not self.is_closed():
            super().dispatch(event, *args, **kwargs)

    async def on_connect(self) -> None:
        """Start a new session. Unlike a resumed one, it does not deliver missed messages."""
        self._session += 1
        session = self._session
        self._missed_messages = None
        self._session_started.clear()
        self._caught_up.clear()
        try:
            await self._start_session(session)
            await self._catch_up_other_direct_chats(session)
        finally:
            # Also after an error: new messages must be received.
            if self._is_current(session):
                self._session_started.set()
                self._on_up()

    async def _catch_up_other_direct_chats(self, session: int) -> None:
        """Catch up on other direct chats before new messages, within a time limit."""
        if (missed := self._missed_messages) and self._is_current(session):
            try:
                async with asyncio.timeout(_OTHER_CHATS_SECONDS):
                    async for place in missed.other_direct_chats():
                        self._catch_up(missed, place)
            except TimeoutError:
                log.warning("discord.direct_chats_left_out")

    async def on_guild_available(self, guild: discord.Guild) -> None:
        await self._session_started.wait()
        if self._missed_messages is None or self.is_closed():
            return
        for place, channel in self._missed_messages.places_of(guild):
            self._catch_up(self._missed_messages, place, channel)

    async def on_ready(self) -> None:
        session = self._session
        try:
            for guild in self.guilds:  # servers that were not announced separately
                await self.on_guild_available(guild)
        finally:
            if self._is_current(session):
                self._caught_up.set()

    async def on_resumed(self) -> None:
        if self._store_error is None:
            self._on_up()
        else:
            self._on_store_unavailable(self._store_error)

    async def on_disconnect(self) -> None:
        self._on_down()

    async def on_message(self, message: discord.Message) -> None:
        if self._is_relevant(message):
            await self._enqueue(message, partial(self._receive_message, message))

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        """Handle edits of the text. Discord also reports link previews, pins and threads as edits."""
        message, before = payload.message, payload.cached_message
        is_changed = before.content != message.content if before else message.edited_at is not None
        if is_changed and self._is_relevant(message):
            await self._enqueue(message, partial(self._receive_edit, message))

    async def on_interaction(self, interaction: discord.Interaction[Any]) -> None:
        try:
            if not self._is_listening:
                return
            if interaction.type is discord.InteractionType.application_command:
                await self._handle_command(interaction)
            elif interaction.type is discord.InteractionType.component:
                await interaction.response.defer(ephemeral=True, thinking=True)
                sentence = repair_surrogates(await self._receiver.pressed(press_of(interaction)))
                await interaction.edit_original_response(content=sentence, allowed_mentions=NO_MENTIONS)
        except SERVICE_ERRORS as error:
            log.warning("discord.interaction_not_answered", interaction=interaction.id, error=str(error))

    async def on_error(self, event_method: str, /, *args: object, **kwargs: object) -> None:
        error = sys.exception()
        await asyncio.to_thread(log.error, "discord.event_failed", event_name=event_method, exc_info=error)

    async def _handle_command(self, interaction: discord.Interaction[Any]) -> None:
        """Acknowledge the command at once, because Discord waits three seconds; the answer is an ordinary message."""
        if sentence := interaction_problem(interaction):
            await interaction.response.send_message(sentence, ephemeral=True)
            return
        deferred = await interaction.response.defer(thinking=True)
        message_id = deferred.message_id if deferred else None
        command = command_message(interaction, message_id or interaction.id)
        if await self._receive_command(command):
            await interaction.edit_original_response(content=echo(command.text), allowed_mentions=NO_MENTIONS)
        elif not self.is_closed():
            await interaction.delete_original_response()

    # -- sessions

    async def _start_session(self, session: int) -> None:
        """Wait until the store works. Until then nothing is received: it would be newer than the missed messages."""
        delay = _FIRST_DELAY
        self._store_error = None
        while self._is_current(session):
            try:
                await self._seen.begin(self._receiver)
            except StoreError as error:
                log.warning("discord.session_delayed", error=type(error).__name__, seconds=delay)
                if not self._is_current(session):
                    return
                if self._store_error is None:
                    self._on_store_unavailable(error)
                self._store_error = error
                delay = await self._wait(delay)
            else:
                break
        if self._is_current(session):
            self._store_error = None
            self._missed_messages = missed = MissedMessages(self, self._seen.copy(), self.access)
            for place in missed.known_direct_chats():
                self._catch_up(missed, place)

    def _is_current(self, session: int) -> bool:
        return session == self._session and not self.is_closed()

    async def _wait(self, seconds: float) -> float:
        """Sleep, or return early if the client closes. Returns the next delay."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)
        return min(2 * seconds, _MAX_DELAY)

    # -- order of arrival: the library runs every event in its own task

    async def _enqueue(self, message: discord.Message, job: Job) -> None:
        text = self._reader.text(message)
        if await self._wait_for_turn(text):
            self._put(message.channel.id, text, job)

    async def _wait_for_turn(self, text: str) -> bool:
        """Wait until the missed messages are queued; False if the client closes, and the next session catches up."""
        if not self._reader.is_urgent(text):
            async with self._order_lock:
                await self._caught_up.wait()
        return self._is_listening and not self.is_closed()

    def _put(self, channel_id: int, text: str, job: Job) -> None:
        """Enqueue a job. Urgent commands such as `/stop` bypass the messages of their channel."""
        self._queue.put(("overtaking", channel_id) if self._reader.is_urgent(text) else channel_id, job)

    async def _receive_command(self, command: ChatMessage) -> bool:
        """Receive a command; False if its author may not use the bot here."""
        if not await self._wait_for_turn(command.text):
            return False
        is_allowed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._pending_commands.add(is_allowed)
        is_allowed.add_done_callback(self._pending_commands.discard)

        async def receive() -> None:
            allowed = False
            try:
                allowed = await self._receive_and_mark_seen(command)
            finally:
                if not is_allowed.done():
                    is_allowed.set_result(allowed)

        self._put(channel_id_of(command.place), command.text, receive)
        return await is_allowed

    def _catch_up(self, missed: MissedMessages, place: Place, channel: Channel | None = None) -> None:
        """Enqueue the missed messages of a place. A channel that is not cached is addressed by its id."""
        where = channel or self.get_partial_messageable(
            channel_id_of(place), guild_id=int(place.group_id) if place.group_id else None
        )

        async def receive_missed() -> None:
            found: list[discord.Message] | None = None
            try:
                found = await missed.messages(where, place)
            except CLOSED_CLIENT_ERRORS:
                if not self.is_closed():
                    raise
            finally:
                if found is None and self.is_closed():
                    self._unread_channels.add(where.id)
            for message in filter(self._reader.is_relevant, found or ()):
                await run_job(partial(self._receive_missed, message, place))

        self._queue.put(where.id, receive_missed)

    # -- to the receiver

    async def _receive_message(self, message: discord.Message) -> None:
        if read := await self._read(message):
            await self._receive_and_mark_seen(read)

    async def _receive_missed(self, message: discord.Message, place: Place) -> None:
        await self._receive_and_mark_seen(self._reader.message(message, place))

    async def _receive_edit(self, message: discord.Message) -> None:
        if read := await self._read(message):
            await self._receiver.edited(read)

    async def _receive_and_mark_seen(self, message: ChatMessage) -> bool:
        if channel_id_of(message.place) in self._unread_channels:
            return False  # the next session finds it behind the missed messages
        # Retry until the message is stored, because Discord delivers it only once.
        is_allowed = await retry_store(partial(self._receiver.message, message), trouble=(StoreError,))
        # An urgent command says nothing about the messages before it.
        if is_allowed and not self._reader.is_urgent(message.text):
            self._seen.note(message.place, int(message.id))
        return is_allowed

    async def _read(self, message: discord.Message) -> ChatMessage | None:
        """Convert a message; None if its channel is unknown. With a wrong place it would be answered twice."""
        channel: object = message.channel
        if isinstance(channel, discord.PartialMessageable):
            # An uncached thread looks like a channel.
            channel = await self._fetch_channel(channel.id)
        return self._reader.message(message, place_of(channel)) if channel else None

    async def _fetch_channel(self, channel_id: int) -> object | None:
        delay = _FIRST_DELAY
        while not self.is_closed():
            try:
                return await self.fetch_channel(channel_id)
            except GONE_ERRORS as error:
                log.warning("discord.channel_out_of_sight", channel=channel_id, error=str(error))
                return None
            except SERVICE_ERRORS as error:
                log.warning("discord.channel_later", channel=channel_id, error=str(error))
            delay = await self._wait(delay)
        return None

    def _is_relevant(self, message: discord.Message) -> bool:
        return self._is_listening and self._reader.is_relevant(message)


def _configure_library_logs() -> None:
    """Quieten the library: below WARNING it logs whole events, and its client repeats errors that are logged here."""
    logging.getLogger("discord").setLevel(logging.WARNING)
    logging.getLogger("discord.client").setLevel(logging.CRITICAL)
    # Its warnings about a lagging connection are wrong by one heartbeat.
    logging.getLogger("discord.gateway").setLevel(logging.ERROR)
