"""Catches up on messages written while the bot was offline, which a new session does not deliver."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

import discord
import structlog
from discord.utils import time_snowflake, utcnow

from gateway.chat.adapter import InboundHandler
from gateway.config.schema_platforms import BotConfig
from gateway.platforms.discord.errors import GONE_ERRORS, SERVICE_ERRORS
from gateway.platforms.discord.message_reader import channel_id_of, place_of
from gateway.types import Place

_MAX_PLACES = 1000
_MAX_ABSENCE = timedelta(days=1)
"""Older messages are not answered after a start. Telegram keeps updates for a day, too."""


class LastSeen:
    """Newest message seen in each place, across connections. The quietest places are forgotten first."""

    def __init__(self) -> None:
        self._newest: OrderedDict[Place, int] = OrderedDict()
        self._oldest = 0

    async def begin(self, receiver: InboundHandler) -> None:
        """Load at the first connection what earlier processes have seen, back to the bot's first day or a day ago."""
        if self._oldest:
            return
        since = datetime.fromtimestamp(await receiver.open(), UTC)
        newest = await receiver.newest()
        self._oldest = time_snowflake(max(since, utcnow() - _MAX_ABSENCE))
        for place, message_id in reversed(newest.items()):
            self.note(place, int(message_id))

    def note(self, place: Place, message_id: int) -> None:
        self._newest[place] = max(message_id, self._newest.get(place, 0))
        self._newest.move_to_end(place)
        if len(self._newest) > _MAX_PLACES:
            _, newest = self._newest.popitem(last=False)
            # An unknown place may now be a forgotten one, whose older messages have been seen.
            self._oldest = max(self._oldest, newest)

    def copy(self) -> LastSeen:
        """Return a snapshot."""
        same = LastSeen()
        same._newest, same._oldest = self._newest.copy(), self._oldest
        return same

    def in_place(self, place: Place) -> int:
        """Return the id of the newest message seen there; newer ones are unseen."""
        return max(self._newest.get(place, 0), self._oldest)

    def direct_chats(self, most: int) -> list[Place]:
        """Return the most recently active direct chats."""
        direct = [place for place in reversed(self._newest) if place.kind == "direct"]
        return direct[:most]

    def in_group(self, group_id: str) -> Iterator[Place]:
        """Yield the places of a server, the most recently active first."""
        return (place for place in reversed(self._newest) if place.group_id == group_id)


log = structlog.get_logger(__name__)

_MAX_MISSED = 200
"""Newest messages that are read in one channel."""
_MAX_CHATS = 100
"""Direct chats, and archived threads of one server, that are read."""
_MAX_PEOPLE = 10
"""Direct chats that are opened. Discord blocks bots that open many."""
_MAX_REQUESTS = 5
"""Concurrent requests. Discord allows fifty a second, and answers need some of them."""

_FIRST_DELAY, _MAX_DELAY = 0.5, 30.0
"""Delays between attempts to read a channel."""

Channel = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.Thread


class MissedMessages:
    """Reads the missed messages of one session, only where people may talk to the bot."""

    def __init__(self, client: discord.Client, seen: LastSeen, settings: BotConfig) -> None:
        self._client = client
        self._seen = seen
        self._users = dict.fromkeys((*settings.admins, *settings.allowed_users))
        self._pending_servers = set(settings.allowed_groups)
        self._requests = asyncio.Semaphore(_MAX_REQUESTS)

    def known_direct_chats(self) -> list[Place]:
        return self._seen.direct_chats(_MAX_CHATS)

    async def other_direct_chats(self) -> AsyncIterator[Place]:
        """Open the direct chats of known people: Discord does not list them."""
        known = set(self.known_direct_chats())
        for user_id in list(self._users)[:_MAX_PEOPLE]:
            try:
                place = place_of(await self._client.create_dm(discord.Object(int(user_id))))
            except SERVICE_ERRORS as error:
                log.info("discord.direct_chat_not_opened", user=user_id, error=str(error))
            else:
                if place not in known:
                    yield place

    def places_of(self, guild: discord.Guild) -> Iterator[tuple[Place, Channel | None]]:
        """Yield the places of an allowed server that may have new messages, once per server."""
        if guild.unavailable or str(guild.id) not in self._pending_servers:
            return
        self._pending_servers.discard(str(guild.id))
        for channel in (*guild.channels, *guild.threads):
            if isinstance(channel, Channel) and self._has_news(channel):
                yield place_of(channel), channel
        for place in self._archived_threads(guild):
            yield place, None

    def _archived_threads(self, guild: discord.Guild) -> Iterator[Place]:
        """Yield known places that Discord does not list with the server: archived threads."""
        known = self._seen.in_group(str(guild.id))
        hidden = (place for place in known if guild.get_channel_or_thread(channel_id_of(place)) is None)
        return islice(hidden, _MAX_CHATS)

    async def messages(
        self, channel: Channel | discord.PartialMessageable, place: Place
    ) -> list[discord.Message]:
        """Return missed messages, the oldest first. Some may be delivered too; the receiver deduplicates them.

        Retries until the client closes, and newer messages wait: once a newer one is stored, these would be lost.
        """
        delay = _FIRST_DELAY
        while True:
            try:
                found = await self._history(channel, discord.Object(self._seen.in_place(place)))
                break
            except GONE_ERRORS as error:
                log.warning("discord.missed_messages_not_read", channel=channel.id, error=str(error))
                return []
            except SERVICE_ERRORS as error:
                if self._client.is_closed():
                    raise
                log.warning("discord.missed_messages_later", channel=channel.id, error=str(error))
            await asyncio.sleep(delay)
            delay = min(2 * delay, _MAX_DELAY)
        if len(found) > _MAX_MISSED:
            log.warning("discord.missed_messages_left_out", channel=channel.id, read=_MAX_MISSED)
        return found[_MAX_MISSED - 1 :: -1]

    async def _history(
        self, channel: Channel | discord.PartialMessageable, after: discord.Object
    ) -> list[discord.Message]:
        """Return the newest first, and one more than the maximum if there are more."""
        async with self._requests:
            newest = channel.history(after=after, limit=_MAX_MISSED + 1, oldest_first=False)
            return [message async for message in newest]

    def _has_news(self, channel: Channel) -> bool:
        if not isinstance(channel, discord.Thread):
            may = channel.permissions_for(channel.guild.me)
            if not (may.view_channel and may.read_message_history):
                return False
        return (channel.last_message_id or 0) > self._seen.in_place(place_of(channel))
