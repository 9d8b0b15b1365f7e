"""What was written while a session was lost for good: a new one, unlike one that is resumed, does not tell."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from datetime import timedelta
from itertools import takewhile

import discord
import structlog

from gateway.chat.contract import Place
from gateway.config.platforms import BotConfig
from gateway.platforms.discord.errors import SERVICE_ERRORS
from gateway.platforms.discord.inbound import place_of
from gateway.platforms.discord.last_seen import LastSeen

log = structlog.get_logger(__name__)

_MOST_MISSED = 200
"""Messages that are read in one channel, the newest of them."""
_MOST_CHATS = 100
_MOST_PEOPLE = 10
"""Direct chats that are opened to look into them. Discord blocks bots that open many."""
_AT_ONCE = 5
"""Requests: Discord allows a bot fifty in a second, and answers are to be sent meanwhile."""

Channel = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.Thread


Readable = Channel | discord.DMChannel
Stored = Callable[[Place, Sequence[str]], Awaitable[set[str]]]

_LONGEST_ABSENCE = timedelta(days=1)
"""What was written before that is not answered after a start: Telegram keeps no more either."""


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
                place = place_of(await self._client.create_dm(discord.Object(user_id)))
            except SERVICE_ERRORS as error:
                log.info("discord.direct_chat_not_opened", user=user_id, error=str(error))
            else:
                if place not in known:
                    yield place

    def channels_of(self, guild: discord.Guild) -> Iterator[Channel]:
        """Those of an allowed server that have news, once."""
        if guild.id in self._waited_for:
            self._waited_for.discard(guild.id)
            for channel in (*guild.channels, *guild.threads):
                if isinstance(channel, Channel) and self._has_news(channel):
                    yield channel

    async def messages(
        self, channel: Channel | discord.PartialMessageable, place: Place
    ) -> list[discord.Message]:
        """The oldest first. What is delivered as well meanwhile is among them; the desk knows what it has seen."""
        after = discord.Object(self._seen.in_place(place))
        found: list[discord.Message] = []
        try:
            async with self._requests:
                async for message in channel.history(after=after, limit=_MOST_MISSED + 1, oldest_first=False):
                    found.append(message)
        except SERVICE_ERRORS as error:
            log.warning("discord.missed_messages_not_read", channel=channel.id, error=str(error))
        if len(found) > _MOST_MISSED:
            log.warning("discord.missed_messages_left_out", channel=channel.id, read=_MOST_MISSED)
        return found[_MOST_MISSED - 1 :: -1]

    async def channel_at(self, place: Place) -> Readable | None:
        try:
            channel = await self._client.fetch_channel(int(place.thread_id or place.chat_id))
        except SERVICE_ERRORS as error:
            log.info("discord.channel_not_found", channel=place.chat_id, error=str(error))
            return None
        return channel if isinstance(channel, Readable) else None

    async def unread(self, channel: Readable, place: Place, stored: Stored) -> list[discord.Message]:
        """What is newer than the newest message that was read; the oldest first."""
        since = discord.utils.utcnow() - _LONGEST_ABSENCE
        try:
            async with self._requests:
                newest = [
                    message
                    async for message in channel.history(after=since, limit=_MOST_MISSED, oldest_first=False)
                ]
        except SERVICE_ERRORS as error:
            log.warning("discord.missed_messages_not_read", channel=channel.id, error=str(error))
            return []
        read = await stored(place, [str(message.id) for message in newest])
        unread = list(takewhile(lambda message: str(message.id) not in read, newest))
        return unread[::-1]

    def _has_news(self, channel: Channel) -> bool:
        is_readable = isinstance(channel, discord.Thread) or _is_readable(channel)
        return is_readable and (channel.last_message_id or 0) > self._seen.in_place(place_of(channel))


def _is_readable(channel: discord.TextChannel | discord.VoiceChannel | discord.StageChannel) -> bool:
    may = channel.permissions_for(channel.guild.me)
    return may.view_channel and may.read_message_history
