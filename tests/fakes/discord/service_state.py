"""State of the loopback Discord; notifies the gateway and waiting tests of changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from enum import IntFlag
from typing import Any, Protocol

from tests.fakes.discord.errors import Json
from tests.fakes.discord.mentions import EVERYTHING, NOBODY, Pings, who_is_pinged
from tests.fakes.discord.messages import Attachment, Flag, Message, Type, Upload
from tests.fakes.discord.places import Channel, Guild, Kind, Member, Role, User
from tests.fakes.discord.time import Clock, Snowflakes, born
from tests.support.watch import PATIENCE, Watch

NONCE_REMEMBERED = 180
"""Seconds in which a nonce sent with `enforce_nonce` gives the first message again."""


class Intent(IntFlag):
    GUILDS = 1 << 0
    GUILD_MEMBERS = 1 << 1
    GUILD_PRESENCES = 1 << 8
    GUILD_MESSAGES = 1 << 9
    GUILD_REACTIONS = 1 << 10
    GUILD_TYPING = 1 << 11
    DIRECT_MESSAGES = 1 << 12
    DIRECT_REACTIONS = 1 << 13
    DIRECT_TYPING = 1 << 14
    MESSAGE_CONTENT = 1 << 15


class Tell(Protocol):
    """Sends an event to every session that asked for this intent (None: to all)."""

    def __call__(self, event: str, intent: Intent | None, payload: Callable[[bool], Json]) -> None:
        """`payload` gets whether the session has the message content intent."""


class Channels(dict[int, Channel]):
    """By id, or by name: `channels["general"]`."""

    def __getitem__(self, key: int | str) -> Channel:
        if isinstance(key, str) and not key.isdecimal():
            return next(channel for channel in self.values() if channel.name == key.removeprefix("#"))
        return super().__getitem__(int(key))


class DiscordState:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.watch = Watch()
        self._ids = Snowflakes(clock)
        self.users: dict[int, User] = {}
        self.guilds: dict[int, Guild] = {}
        self.channels = Channels()
        self.messages: dict[int, Message] = {}
        self.files: dict[int, Attachment] = {}
        self._dms: dict[int, Channel] = {}
        self._by_nonce: dict[tuple[int, str | int], Message] = {}
        self.files_url = ""
        self.bot = self.add_user(User(self.new_id(), "Hermes", bot=True))
        self.tell: Tell = lambda event, intent, payload: None

    def new_id(self) -> int:
        return self._ids.next()

    async def until(
        self,
        condition: Callable[[], bool],
        *,
        within: float = PATIENCE,
        otherwise: Callable[[], str] = lambda: "",
    ) -> None:
        """`otherwise`: what to say when it does not come true in time."""
        waiting = asyncio.wrap_future(self.watch.until(condition))
        try:
            await asyncio.wait_for(waiting, within)
        except TimeoutError:
            raise AssertionError(f"not within {within:g} s. {otherwise()}") from None

    def add_user(self, user: User) -> User:
        self.users[user.id] = user
        return user

    def add_guild(self, name: str) -> Guild:
        owner = self.add_user(User(self.new_id(), f"Owner of {name}"))
        guild = Guild(self, self.new_id(), name, owner)
        guild.members = {user.id: Member(user) for user in (owner, self.bot)}
        self.guilds[guild.id] = guild
        self.tell("GUILD_CREATE", Intent.GUILDS, lambda _: self.guild_json(guild))
        return guild

    def guild_json(self, guild: Guild) -> Json:
        """Without the presences intent the gateway lists no member but the bot itself."""
        return guild.json(members=[guild.members[self.bot.id]])

    def add_channel(self, guild: Guild, name: str) -> Channel:
        channel = Channel(self, self.new_id(), Kind.TEXT, name, guild=guild)
        guild.channels.append(channel)
        self.channels[channel.id] = channel
        self.tell("CHANNEL_CREATE", Intent.GUILDS, lambda _: channel.json())
        return channel

    def channel_changed(self, channel: Channel) -> None:
        event = "THREAD_UPDATE" if channel.is_thread else "CHANNEL_UPDATE"
        self.tell(event, Intent.GUILDS, lambda _: channel.json())
        self.watch.changed()

    def add_role(self, guild: Guild, role: Role) -> Role:
        guild.roles[role.id] = role
        self.tell(
            "GUILD_ROLE_CREATE", Intent.GUILDS, lambda _: {"guild_id": str(guild.id), "role": role.json()}
        )
        return role

    def add_member(self, guild: Guild, member: Member) -> Member:
        guild.members[member.user.id] = member
        joined = {**member.json(), "guild_id": str(guild.id)}
        self.tell("GUILD_MEMBER_ADD", Intent.GUILD_MEMBERS, lambda _: joined)
        return member

    def shares_guild_with_bot(self, user: User) -> bool:
        return any(user.id in guild.members for guild in self.guilds.values())

    def open_dm(self, user: User) -> Channel:
        """The one direct chat between the bot and this person. The gateway does not announce it."""
        if user.id not in self._dms:
            channel = Channel(self, self.new_id(), Kind.DM, f"@{user.name}", recipient=user)
            self._dms[user.id] = self.channels[channel.id] = channel
        return self._dms[user.id]

    def open_thread(
        self,
        parent: Channel,
        name: str,
        owner: User,
        *,
        starter: Message | None = None,
        kind: Kind = Kind.PUBLIC_THREAD,
    ) -> Channel:
        """A thread on a message has the message's id; one without leaves a system message in the channel."""
        assert parent.guild is not None
        snowflake = self.new_id() if starter is None else starter.id
        thread = Channel(self, snowflake, kind, name, guild=parent.guild, parent=parent, owner=owner)
        parent.guild.channels.append(thread)
        self.channels[thread.id] = thread
        if thread.seen_by_bot():
            self.tell("THREAD_CREATE", Intent.GUILDS, lambda _: {**thread.json(), "newly_created": True})
        if starter is not None:
            self.post(thread, owner, type=Type.THREAD_STARTER_MESSAGE, reply_to=starter, allowed=NOBODY)
        elif kind is Kind.PUBLIC_THREAD:
            self.post(parent, owner, name, type=Type.THREAD_CREATED, allowed=NOBODY)
        return thread

    def join_thread(self, thread: Channel, user: User) -> None:
        if user not in thread.joined:
            thread.joined.append(user)
            self.channel_changed(thread)

    def post(
        self,
        channel: Channel,
        author: User,
        content: str = "",
        *,
        uploads: Iterable[Upload] = (),
        allowed: Json = EVERYTHING,
        reply_to: Message | None = None,
        **fields: Any,
    ) -> Message:
        """`fields`: the other fields of `Message`. Text is trimmed, as Discord trims it."""
        message = Message(self.new_id(), channel, author, content.strip(), reply_to=reply_to, **fields)
        message.attachments = [self.store(channel, upload) for upload in uploads]
        message.versions.append(message.content)
        message.mentioned = self._pings(message, allowed)
        message.pinged = message.mentioned.without(author)
        channel.history.append(message)
        channel.archived = channel.archived and channel.locked
        self.messages[message.id] = message
        if message.nonce is not None:
            self._by_nonce[author.id, message.nonce] = message
        self._tell_of("MESSAGE_CREATE", message)
        return message

    def store(self, channel: Channel, upload: Upload) -> Attachment:
        file = Attachment(self.new_id(), upload, f"{self.files_url}/attachments/{channel.id}")
        self.files[file.id] = file
        return file

    def edit(self, message: Message, *, allowed: Json = EVERYTHING, **changes: Any) -> None:
        """Edits notify no one, except the edit that turns "thinking…" into an answer."""
        for name, value in changes.items():
            setattr(message, name, value.strip() if name == "content" else value)
        message.versions.append(message.content)
        message.mentioned = self._pings(message, allowed)
        if message.thinking:
            message.flags &= ~Flag.LOADING
            message.pinged = message.mentioned.without(message.author)
        else:
            message.edited_at = self.clock.now()
        self._tell_of("MESSAGE_UPDATE", message)

    def delete(self, message: Message) -> None:
        message.deleted = True
        gone: Json = {"id": str(message.id), **self._place(message.channel)}
        self._tell_channel("MESSAGE_DELETE", message, lambda _: gone)

    def react(self, message: Message, user: User, emoji: str, *, adds: bool) -> None:
        users = message.reactions.setdefault(emoji, [])
        if (user in users) is adds:
            return
        (users.append if adds else users.remove)(user)
        if not users:
            del message.reactions[emoji]
        event: Json = {
            "user_id": str(user.id),
            "message_id": str(message.id),
            "emoji": {"id": None, "name": emoji},
            "burst": False,
            "type": 0,
            **self._place(message.channel),
        }
        guild = message.channel.guild
        if adds and guild is not None:
            event |= {"member": guild.members[user.id].json(), "message_author_id": str(message.author.id)}
        intent = Intent.DIRECT_REACTIONS if guild is None else Intent.GUILD_REACTIONS
        self.tell("MESSAGE_REACTION_ADD" if adds else "MESSAGE_REACTION_REMOVE", intent, lambda _: event)
        self.watch.changed()

    def type(self, channel: Channel, user: User) -> None:
        if user is self.bot:
            channel.typings.append(self.clock.now())
        event: Json = {"user_id": str(user.id), "timestamp": int(self.clock.now()), **self._place(channel)}
        intent = Intent.DIRECT_TYPING if channel.guild is None else Intent.GUILD_TYPING
        self.tell("TYPING_START", intent, lambda _: event)
        self.watch.changed()

    def already_sent(self, author: User, nonce: str | int) -> Message | None:
        """The message that was sent with this nonce a moment ago."""
        message = self._by_nonce.get((author.id, nonce))
        if message is None or self.clock.now() - born(message.id) > NONCE_REMEMBERED:
            return None
        return message

    def pings(self) -> Sequence[Message]:
        """The bot's messages that notified people."""
        return [m for m in self.messages.values() if m.author is self.bot and m.pinged]

    def _pings(self, message: Message, allowed: Json) -> Pings:
        replied_to = None if message.reply_to is None else message.reply_to.author
        return who_is_pinged(message.content, allowed, message.channel, message.author, replied_to)

    def _place(self, channel: Channel) -> Json:
        place = {"channel_id": str(channel.id)}
        return place if channel.guild is None else {**place, "guild_id": str(channel.guild.id)}

    def _tell_of(self, event: str, message: Message) -> None:
        self._tell_channel(event, message, lambda content: message.event(has_content_intent=content))

    def _tell_channel(self, event: str, message: Message, payload: Callable[[bool], Json]) -> None:
        """Ephemeral messages and invisible channels cause no gateway event."""
        channel = message.channel
        if message.only_for is None and channel.seen_by_bot():
            intent = Intent.DIRECT_MESSAGES if channel.guild is None else Intent.GUILD_MESSAGES
            self.tell(event, intent, payload)
        self.watch.changed()
