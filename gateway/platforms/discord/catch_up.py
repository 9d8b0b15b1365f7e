"""What was written while a session was lost for good: a new one, unlike one that is resumed, does not tell."""

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
from gateway.platforms.discord.errors import GONE, SERVICE_ERRORS
from gateway.platforms.discord.message_reader import channel_id_of, place_of
from gateway.types import Place

_MOST_PLACES = 1000
_LONGEST_ABSENCE = timedelta(days=1)
"""What was written before that is not answered after a start: Telegram keeps no more either."""


class LastSeen:
    """Outlives connections. The places that were quiet for longest are forgotten."""

    def __init__(self) -> None:
        self._newest: OrderedDict[Place, int] = OrderedDict()
        self._began = 0

    async def begin(self, desk: InboundHandler) -> None:
        """At the first connection: what an earlier process has seen is known to the desk. There is nothing before the
        bot's first day, nor before a longer absence."""
        if self._began:
            return
        since = datetime.fromtimestamp(await desk.open(), UTC)
        newest = await desk.newest()
        self._began = time_snowflake(max(since, utcnow() - _LONGEST_ABSENCE))
        for place, message_id in reversed(newest.items()):
            self.note(place, int(message_id))

    def note(self, place: Place, message_id: int) -> None:
        self._newest[place] = max(message_id, self._newest.get(place, 0))
        self._newest.move_to_end(place)
        if len(self._newest) > _MOST_PLACES:
            _, newest = self._newest.popitem(last=False)
            # From here on an unknown place may be one that was forgotten: what is older has been seen there.
            self._began = max(self._began, newest)

    def copy(self) -> LastSeen:
        """As it is at this moment."""
        same = LastSeen()
        same._newest, same._began = self._newest.copy(), self._began
        return same

    def in_place(self, place: Place) -> int:
        """What is newer has not been seen there."""
        return max(self._newest.get(place, 0), self._began)

    def direct_chats(self, most: int) -> list[Place]:
        """Those that were busy last."""
        direct = [place for place in reversed(self._newest) if place.kind == "direct"]
        return direct[:most]

    def in_group(self, group_id: str) -> Iterator[Place]:
        """Those of a server, the busy ones first."""
        return (place for place in reversed(self._newest) if place.group_id == group_id)


log = structlog.get_logger(__name__)

_MOST_MISSED = 200
"""Messages that are read in one channel, the newest of them."""
_MOST_CHATS = 100
"""Direct chats that are looked into, and threads of one server that are in its archive."""
_MOST_PEOPLE = 10
"""Direct chats that are opened to look into them. Discord blocks bots that open many."""
_AT_ONCE = 5
"""Requests: Discord allows a bot fifty in a second, and answers are to be sent meanwhile."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
"""Between attempts to read a channel."""

Channel = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.Thread


class Missed:
    """One for each session that begins anew. It looks only where somebody may talk to the bot."""

    def __init__(self, client: discord.Client, seen: LastSeen, settings: BotConfig) -> None:
        self._client = client
        self._seen = seen
        self._people = dict.fromkeys((*settings.admins, *settings.allowed_users))
        self._waited_for = set(settings.allowed_groups)
        self._requests = asyncio.Semaphore(_AT_ONCE)

    def known_direct_chats(self) -> list[Place]:
        return self._seen.direct_chats(_MOST_CHATS)

    async def other_direct_chats(self) -> AsyncIterator[Place]:
        """Discord does not list them; they can only be opened, one for each person that is known."""
        known = set(self.known_direct_chats())
        for user_id in list(self._people)[:_MOST_PEOPLE]:
            try:
                place = place_of(await self._client.create_dm(discord.Object(int(user_id))))
            except SERVICE_ERRORS as error:
                log.info("discord.direct_chat_not_opened", user=user_id, error=str(error))
            else:
                if place not in known:
                    yield place

    def places_of(self, guild: discord.Guild) -> Iterator[tuple[Place, Channel | None]]:
        """Those of an allowed server that may have news, once. One that is not there yet is still waited for."""
        if guild.unavailable or str(guild.id) not in self._waited_for:
            return
        self._waited_for.discard(str(guild.id))
        for channel in (*guild.channels, *guild.threads):
            if isinstance(channel, Channel) and self._has_news(channel):
                yield place_of(channel), channel
        for place in self._out_of_sight(guild):
            yield place, None

    def _out_of_sight(self, guild: discord.Guild) -> Iterator[Place]:
        """Discord lists no archived threads with a server: what was written before they were put there is only found
        by those who know them."""
        known = self._seen.in_group(str(guild.id))
        hidden = (place for place in known if guild.get_channel_or_thread(channel_id_of(place)) is None)
        return islice(hidden, _MOST_CHATS)

    async def messages(
        self, channel: Channel | discord.PartialMessageable, place: Place
    ) -> list[discord.Message]:
        """The oldest first. What is delivered as well meanwhile is among them; the desk knows what it has seen.

        Discord's trouble is waited for, and with it what is in line behind: once something newer is kept, nobody would
        look for these again. Only the end of the connection ends that, with whatever error."""
        pause = _FIRST_PAUSE
        while True:
            try:
                found = await self._history(channel, discord.Object(self._seen.in_place(place)))
                break
            except GONE as error:
                log.warning("discord.missed_messages_not_read", channel=channel.id, error=str(error))
                return []
            except SERVICE_ERRORS as error:
                if self._client.is_closed():
                    raise
                log.warning("discord.missed_messages_later", channel=channel.id, error=str(error))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        if len(found) > _MOST_MISSED:
            log.warning("discord.missed_messages_left_out", channel=channel.id, read=_MOST_MISSED)
        return found[_MOST_MISSED - 1 :: -1]

    async def _history(
        self, channel: Channel | discord.PartialMessageable, after: discord.Object
    ) -> list[discord.Message]:
        """The newest first, one more than is wanted if there are more."""
        async with self._requests:
            newest = channel.history(after=after, limit=_MOST_MISSED + 1, oldest_first=False)
            return [message async for message in newest]

    def _has_news(self, channel: Channel) -> bool:
        is_readable = isinstance(channel, discord.Thread) or _is_readable(channel)
        return is_readable and (channel.last_message_id or 0) > self._seen.in_place(place_of(channel))


def _is_readable(channel: discord.TextChannel | discord.VoiceChannel | discord.StageChannel) -> bool:
    may = channel.permissions_for(channel.guild.me)
    return may.view_channel and may.read_message_history
