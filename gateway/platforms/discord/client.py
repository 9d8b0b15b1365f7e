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
from gateway.chat.adapter import InboundHandler
from gateway.chat.keyed_queue import Job, KeyedQueue
from gateway.commands import Command
from gateway.config.schema_platforms import BotConfig
from gateway.core.retry import retry_store
from gateway.platforms.discord.catch_up import Channel, LastSeen, Missed
from gateway.platforms.discord.errors import GONE, SERVICE_ERRORS
from gateway.platforms.discord.interactions import command_message, echo, obstacle, press_of
from gateway.platforms.discord.menu import keep_menu_current
from gateway.platforms.discord.message_reader import Reader, channel_id_of, place_of
from gateway.platforms.discord.port import NOBODY
from gateway.text.unicode import repair_surrogates
from gateway.types import ChatMessage, Place

log = structlog.get_logger(__name__)

INTENTS = discord.Intents(guilds=True, messages=True, message_content=True)

_LONGEST_SLEEP = 30.0
"""Pauses up to this the library makes itself; longer ones become SlowDown. It allows no shorter."""

_REQUEST_SECONDS = 300.0
ANSWER_SECONDS = 30.0
"""From the end of a request to its answer. The library would wait as long as for the whole, and everything else that is
to be shown in the chat with it."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
"""Between attempts while the store refuses, or Discord."""

_OPENING_SECONDS = 5.0
"""For looking into direct chats of people who have not written yet."""

_GUILDS_SECONDS = 0.1
"""What the library waits for more servers to arrive. One that comes later is looked through later."""


class BotClient(discord.Client):
    """One connection. It mends short interruptions itself; after its end another is made."""

    def __init__(
        self,
        desk: InboundHandler,
        commands: Sequence[Command],
        seen: LastSeen,
        lines: KeyedQueue,
        access: BotConfig,
        *,
        up: Callable[[], None],
        lost: Callable[[], None],
        deaf: Callable[[StoreError], None],
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
        self.access = access
        self._session = 0
        """Counts those that begin anew."""
        self._missed: Missed | None = None
        self._has_begun = asyncio.Event()
        """Set once a new session knows where it has to look for what was missed."""
        self._is_complete = asyncio.Event()
        """Set once that stands in line, before what comes now."""
        self._entrance = asyncio.Lock()
        """Passed in the order in which people came: those whom an event wakes may find somebody ahead of them."""
        self._tell_up, self._tell_lost, self._tell_deaf = up, lost, deaf
        self._refusal: StoreError | None = None
        """Why the session cannot begin."""
        self._is_ending = asyncio.Event()
        self._unread: set[int] = set()
        """Channels where the connection has ended before it was known what was missed."""
        self._asked: set[asyncio.Future[bool]] = set()
        """Commands that wait to hear whether they are welcome."""
        self._reader = Reader(0, commands)
        self._menu: asyncio.Task[None] | None = None
        self._lines = lines
        self._listens = True

    def stop_listening(self) -> None:
        """Nothing more is taken in but what stands in line. Sending goes on."""
        self._listens = False

    async def setup_hook(self) -> None:
        assert self.user is not None, "known since login"
        self._reader = Reader(self.user.id, self._commands)
        self._menu = asyncio.create_task(keep_menu_current(self, self._commands), name="discord menu")

    async def close(self) -> None:
        if self._menu is not None:
            self._menu.cancel()
        self._has_begun.set()
        self._is_complete.set()
        self._is_ending.set()
        for welcome in self._asked:
            welcome.cancel()
        await super().close()

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
        """The library tells of READY a moment late and stumbles if it has been closed meanwhile."""
        if not self.is_closed():
            super().dispatch(event, *args, **kwargs)

    async def on_connect(self) -> None:
        """A session that begins anew, unlike one that is resumed, does not tell what was missed."""
        self._session += 1
        session = self._session
        self._missed = None
        self._has_begun.clear()
        self._is_complete.clear()
        try:
            await self._begin(session)
            await self._look_into_other_direct_chats(session)
        finally:
            # Whatever happened: what is written from now on must be heard.
            if self._goes_on(session):
                self._has_begun.set()
                self._tell_up()

    async def _look_into_other_direct_chats(self, session: int) -> None:
        """Before what is written from now on; but nobody waits long for chats in which nothing was said yet."""
        if (missed := self._missed) and self._goes_on(session):
            try:
                async with asyncio.timeout(_OPENING_SECONDS):
                    async for place in missed.other_direct_chats():
                        self._catch_up(missed, place)
            except TimeoutError:
                log.warning("discord.direct_chats_left_out")

    async def on_guild_available(self, guild: discord.Guild) -> None:
        await self._has_begun.wait()
        if self._missed is None or self.is_closed():
            return
        for place, channel in self._missed.places_of(guild):
            self._catch_up(self._missed, place, channel)

    async def on_ready(self) -> None:
        session = self._session
        try:
            for guild in self.guilds:  # those of which it was not told yet that they are there
                await self.on_guild_available(guild)
        finally:
            if self._goes_on(session):
                self._is_complete.set()

    async def on_resumed(self) -> None:
        if self._refusal is None:
            self._tell_up()
        else:
            self._tell_deaf(self._refusal)

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
        elif not self.is_closed():
            await interaction.delete_original_response()

    async def _press(self, interaction: discord.Interaction[Any]) -> None:
        await interaction.response.defer(ephemeral=True, thinking=True)
        sentence = repair_surrogates(await self._desk.pressed(press_of(interaction)))
        await interaction.edit_original_response(content=sentence, allowed_mentions=NOBODY)

    # -- where to go on -------------------------------------------------------------------------------------

    async def _begin(self, session: int) -> None:
        """The store may refuse for a while. Meanwhile nothing is taken in: it would be newer than what was missed."""
        pause = _FIRST_PAUSE
        self._refusal = None
        while self._goes_on(session):
            try:
                await self._seen.begin(self._desk)
            except StoreError as error:
                log.warning("discord.not_begun", error=type(error).__name__, seconds=pause)
                if not self._goes_on(session):
                    return
                if self._refusal is None:
                    self._tell_deaf(error)
                self._refusal = error
                pause = await self._rest(pause)
            else:
                break
        if self._goes_on(session):
            self._refusal = None
            self._missed = missed = Missed(self, self._seen.copy(), self.access)
            for place in missed.known_direct_chats():
                self._catch_up(missed, place)

    def _goes_on(self, session: int) -> bool:
        return session == self._session and not self.is_closed()

    async def _rest(self, seconds: float) -> float:
        """As long, or until the connection is closed. Gives the pause after this."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_ending.wait(), seconds)
        return min(2 * seconds, _LONGEST_PAUSE)

    # -- in the order in which it came: every event is a task of its own ------------------------------------

    async def _stand_in_line(self, message: discord.Message, job: Job) -> None:
        text = self._reader.words(message)
        if await self._is_their_turn(text):
            self._line_up(message.channel.id, text, job)

    async def _is_their_turn(self, text: str) -> bool:
        """Waits until what was missed stands in line. What waited in vain is missed by the next session."""
        if not self._reader.overtakes(text):
            async with self._entrance:
                await self._is_complete.wait()
        return self._listens and not self.is_closed()

    def _line_up(self, channel_id: int, text: str, job: Job) -> None:
        """`/stop` and its like must not wait for what is still being accepted."""
        self._lines.put(("overtaking", channel_id) if self._reader.overtakes(text) else channel_id, job)

    async def _take_in_line(self, command: ChatMessage) -> bool:
        """Whether its author may speak here."""
        if not await self._is_their_turn(command.text):
            return False
        welcome: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._asked.add(welcome)
        welcome.add_done_callback(self._asked.discard)

        async def hand_in() -> None:
            is_welcome = False
            try:
                is_welcome = await self._take(command)
            finally:
                if not welcome.done():
                    welcome.set_result(is_welcome)

        self._line_up(channel_id_of(command.place), command.text, hand_in)
        return await welcome

    def _catch_up(self, missed: Missed, place: Place, channel: Channel | None = None) -> None:
        """What is not in the library's memory, such as a direct chat, is told by its place alone."""
        where = channel or self.get_partial_messageable(
            channel_id_of(place), guild_id=int(place.group_id) if place.group_id else None
        )

        async def hand_in_missed() -> None:
            try:
                found = await missed.messages(where, place)
            except Exception:
                if not self.is_closed():
                    raise
                self._unread.add(where.id)
                return
            for message in filter(self._reader.concerns, found):
                try:
                    await self._take(self._reader.message(message, place))
                except Exception as error:  # noqa: BLE001 - one message must not cost those behind it
                    await asyncio.to_thread(log.error, "chat.message_failed", exc_info=error)

        self._lines.put(where.id, hand_in_missed)

    # -- to the desk ----------------------------------------------------------------------------------------

    async def _hand_in(self, message: discord.Message) -> None:
        if read := await self._read(message):
            await self._take(read)

    async def _hand_in_edit(self, message: discord.Message) -> None:
        if read := await self._read(message):
            await self._desk.edited(read)

    async def _take(self, message: ChatMessage) -> bool:
        if channel_id_of(message.place) in self._unread:
            return False  # the next session finds it behind what was missed
        welcome = await self._kept(message)
        # What overtakes says nothing about those that were there before it.
        if welcome and not self._reader.overtakes(message.text):
            self._seen.note(message.place, int(message.id))
        return welcome

    async def _kept(self, message: ChatMessage) -> bool:
        """Discord delivers a message once, so the line waits here until it can be kept."""
        return await retry_store(partial(self._desk.message, message), trouble=(StoreError,))

    async def _read(self, message: discord.Message) -> ChatMessage | None:
        """None if it cannot be found out where it was written: from another place it would be another message, and
        answered again once it is found where it belongs."""
        channel: object = message.channel
        if isinstance(channel, discord.PartialMessageable):
            # A thread that is not in the cache would pass for a channel.
            channel = await self._looked_up(channel.id)
        return self._reader.message(message, place_of(channel)) if channel else None

    async def _looked_up(self, channel_id: int) -> object | None:
        pause = _FIRST_PAUSE
        while not self.is_closed():
            try:
                return await self.fetch_channel(channel_id)
            except GONE as error:
                log.warning("discord.channel_out_of_sight", channel=channel_id, error=str(error))
                return None
            except SERVICE_ERRORS as error:
                log.warning("discord.channel_later", channel=channel_id, error=str(error))
            pause = await self._rest(pause)
        return None

    def _concerns(self, message: discord.Message) -> bool:
        return self._listens and self._reader.concerns(message)


def _quieten_library() -> None:
    """Below WARNING it writes down whole events. Its client reports failures that are reported here already, and
    each interruption with a traceback."""
    logging.getLogger("discord").setLevel(logging.WARNING)
    logging.getLogger("discord.client").setLevel(logging.CRITICAL)
    # Its count of how far a connection is behind is off by a heartbeat; what is really lost ends the connection.
    logging.getLogger("discord.gateway").setLevel(logging.ERROR)
