"""Users, roles, guilds with their members, channels, threads and direct chats."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING

from tests.fakes.discord.errors import Json
from tests.fakes.discord.time import born, iso
from tests.support.watch import PATIENCE

if TYPE_CHECKING:
    from tests.fakes.discord.messages import Message
    from tests.fakes.discord.service_state import DiscordState


class May(IntFlag):
    """Permissions, with Discord's bits."""

    REACT = 1 << 6
    VIEW = 1 << 10
    SEND = 1 << 11
    MANAGE_MESSAGES = 1 << 13
    EMBED_LINKS = 1 << 14
    ATTACH_FILES = 1 << 15
    READ_HISTORY = 1 << 16
    PING_ALL = 1 << 17
    USE_COMMANDS = 1 << 31
    MANAGE_THREADS = 1 << 34
    OPEN_THREADS = 1 << 35
    OPEN_PRIVATE_THREADS = 1 << 36
    SEND_IN_THREADS = 1 << 38


NOTHING = May(0)
ORDINARY = (
    May.REACT | May.VIEW | May.SEND | May.EMBED_LINKS | May.ATTACH_FILES | May.READ_HISTORY | May.PING_ALL
) | (May.USE_COMMANDS | May.OPEN_THREADS | May.OPEN_PRIVATE_THREADS | May.SEND_IN_THREADS)
"""Permissions of @everyone in a new guild; pinging @everyone is among them."""


class Kind(IntEnum):
    TEXT = 0
    DM = 1
    PUBLIC_THREAD = 11
    PRIVATE_THREAD = 12


@dataclass(eq=False)
class User:
    id: int
    name: str
    bot: bool = False
    refuses_dms: bool = False
    """The bot's direct messages to this person fail with 50007."""

    @property
    def mention(self) -> str:
        return f"<@{self.id}>"

    def json(self) -> Json:
        user: Json = {
            "id": str(self.id),
            "username": self.name.lower().replace(" ", "_"),
            "global_name": None if self.bot else self.name,
            "discriminator": "0001" if self.bot else "0",
            "avatar": None,
            "public_flags": 0,
        }
        return {**user, "bot": True} if self.bot else user


@dataclass(eq=False)
class Role:
    id: int
    name: str
    permissions: May = NOTHING
    mentionable: bool = False

    @property
    def mention(self) -> str:
        return f"<@&{self.id}>"

    def json(self) -> Json:
        return {
            "id": str(self.id),
            "name": self.name,
            "color": 0,
            "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
            "hoist": False,
            "position": 0,
            "permissions": str(int(self.permissions)),
            "managed": False,
            "mentionable": self.mentionable,
            "flags": 0,
        }


@dataclass(eq=False)
class Member:
    user: User
    roles: list[Role] = field(default_factory=list)
    nick: str | None = None

    def json(self) -> Json:
        return {**self.partial(), "user": self.user.json()}

    def partial(self) -> Json:
        return {
            "roles": [str(role.id) for role in self.roles],
            "nick": self.nick,
            "joined_at": iso(born(self.user.id)),
            "premium_since": None,
            "deaf": False,
            "mute": False,
            "flags": 0,
        }


class Guild:
    def __init__(self, state: DiscordState, snowflake: int, name: str, owner: User) -> None:
        self.id = snowflake
        self.name = name
        self.owner = owner
        self.state = state
        everyone = Role(snowflake, "@everyone", ORDINARY)
        self.roles: dict[int, Role] = {everyone.id: everyone}
        self.members: dict[int, Member] = {}
        self.channels: list[Channel] = []

    def add_channel(self, name: str) -> Channel:
        return self.state.add_channel(self, name)

    def add_role(self, name: str, *, permissions: May = NOTHING, mentionable: bool = False) -> Role:
        return self.state.add_role(self, Role(self.state.new_id(), name, permissions, mentionable))

    def add_member(self, user: User, *roles: Role, nick: str | None = None) -> Member:
        return self.state.add_member(self, Member(user, list(roles), nick))

    def threads(self) -> list[Channel]:
        return [channel for channel in self.channels if channel.is_thread]

    def json(self, *, members: Iterable[Member]) -> Json:
        threads = [c for c in self.threads() if not c.archived and c.seen_by_bot()]
        places = [c for c in self.channels if not c.is_thread]
        return {
            "id": str(self.id),
            "name": self.name,
            "icon": None,
            "owner_id": str(self.owner.id),
            "afk_timeout": 300,
            "verification_level": 0,
            "default_message_notifications": 0,
            "explicit_content_filter": 0,
            "mfa_level": 0,
            "nsfw_level": 0,
            "premium_tier": 0,
            "preferred_locale": "en-US",
            "system_channel_flags": 0,
            "features": [],
            "emojis": [],
            "stickers": [],
            "roles": [role.json() for role in self.roles.values()],
            "joined_at": iso(born(self.id)),
            "large": False,
            "unavailable": False,
            "member_count": len(self.members),
            "members": [member.json() for member in members],
            "channels": [channel.json() for channel in places],
            "threads": [thread.json() for thread in threads],
            "voice_states": [],
            "presences": [],
            "stage_instances": [],
            "guild_scheduled_events": [],
            "soundboard_sounds": [],
        }


class Channel:
    """A text channel, a thread or a direct chat, as a person looking at it sees it."""

    def __init__(
        self,
        state: DiscordState,
        snowflake: int,
        kind: Kind,
        name: str,
        *,
        guild: Guild | None = None,
        parent: Channel | None = None,
        owner: User | None = None,
        recipient: User | None = None,
    ) -> None:
        self.state = state
        self.id = snowflake
        self.kind = kind
        self.name = name
        self.guild = guild
        self.parent = parent
        self.owner = owner
        self.recipient = recipient
        self.archived = False
        self.locked = False
        self.joined: list[User] = [owner] if owner is not None else []
        """A thread's members."""
        self.history: list[Message] = []
        """Everything ever written here, deleted messages too."""
        self.typings: list[float] = []
        """When the bot let people see that it is typing."""
        self.denied: dict[int, May] = {}
        """Overwrites: what a user or a role may not do here."""

    def __repr__(self) -> str:
        return f"<{self.kind.name} {self.name!r} {self.id}>"

    @property
    def is_thread(self) -> bool:
        return self.kind in (Kind.PUBLIC_THREAD, Kind.PRIVATE_THREAD)

    @property
    def messages(self) -> list[Message]:
        """Visible messages in order, ephemeral ones included (see `Message.only_for`)."""
        return [message for message in self.history if not message.deleted]

    @property
    def answers(self) -> list[Message]:
        """The bot's messages that can be seen now."""
        return [message for message in self.messages if message.author is self.state.bot]

    @property
    def texts(self) -> list[str]:
        return [message.content for message in self.messages]

    async def message(self, wanted: Callable[[Message], bool], *, within: float = PATIENCE) -> Message:
        """Wait until such a message is visible, by any author."""
        await self.until(lambda: any(wanted(message) for message in self.messages), within=within)
        return next(message for message in self.messages if wanted(message))

    async def answer(
        self, wanted: Callable[[Message], bool] = lambda message: True, *, within: float = PATIENCE
    ) -> Message:
        """Until the bot has a message like that here (a "thinking…" does not count)."""
        return await self.message(
            lambda m: m.author is self.state.bot and not m.thinking and wanted(m), within=within
        )

    async def typed(self, count: int = 1, *, within: float = PATIENCE) -> None:
        """Until the bot has shown that it is typing that many times."""
        await self.until(lambda: len(self.typings) >= count, within=within)

    async def until(self, condition: Callable[[], bool], *, within: float = PATIENCE) -> None:
        await self.state.until(condition, within=within, otherwise=self.describe)

    def describe(self) -> str:
        return f"{self!r} shows:\n" + "\n".join(f"  {message!r}" for message in self.messages)

    def thread(self, name: str, *, owner: User | None = None) -> Channel:
        """Open a thread here, by default as the guild's owner."""
        assert self.guild is not None, "only a guild's channel has threads"
        return self.state.open_thread(self, name, owner or self.guild.owner)

    def forbid(self, who: User | Role, *what: May) -> None:
        """An overwrite: who loses these permissions here."""
        for permission in what:
            self.denied[who.id] = self.denied.get(who.id, NOTHING) | permission
        self.state.channel_changed(self)

    def may(self, user: User, permission: May) -> bool:
        return permission in self.permissions(user)

    def permissions(self, user: User) -> May:
        if self.guild is None:
            return ORDINARY & ~May.PING_ALL
        if self.kind is Kind.PRIVATE_THREAD and user not in self.joined:
            return NOTHING
        member = self.guild.members.get(user.id)
        if member is None:
            return NOTHING
        holders = [self.guild.roles[self.guild.id], *member.roles]
        granted = NOTHING
        for role in holders:
            granted |= role.permissions
        for denied in (*map(self.denied_to, holders), self.denied_to(user)):
            granted &= ~denied
        return granted if May.VIEW in granted else NOTHING

    def denied_to(self, who: User | Role) -> May:
        """A thread has the overwrites of its channel."""
        return (self.parent or self).denied.get(who.id, NOTHING)

    def may_write(self, user: User) -> bool:
        return self.may(user, May.SEND_IN_THREADS if self.is_thread else May.SEND)

    def may_ping_all(self, user: User) -> bool:
        return self.guild is not None and self.may(user, May.PING_ALL)

    def seen_by_bot(self) -> bool:
        return self.may(self.state.bot, May.VIEW)

    def roles_named(self, ids: Iterable[int]) -> list[Role]:
        roles = {} if self.guild is None else self.guild.roles
        return [roles[role] for role in ids if role in roles]

    def users_named(self, ids: Iterable[int]) -> list[User]:
        users = [self.state.users[user] for user in ids if user in self.state.users]
        return (
            users if self.guild is not None else [u for u in users if u in (self.recipient, self.state.bot)]
        )

    def json(self) -> Json:
        last = self.messages[-1].id if self.messages else None
        channel: Json = {
            "id": str(self.id),
            "type": int(self.kind),
            "last_message_id": None if last is None else str(last),
            "flags": 0,
        }
        if self.recipient is not None:
            return {**channel, "recipients": [self.recipient.json()]}
        assert self.guild is not None
        channel |= {"guild_id": str(self.guild.id), "name": self.name, "rate_limit_per_user": 0}
        return channel | (self._thread_json() if self.is_thread else self._text_json())

    def _text_json(self) -> Json:
        overwrites = [
            {
                "id": str(who),
                "type": int(who not in (self.guild.roles if self.guild else {})),
                "allow": "0",
                "deny": str(int(deny)),
            }
            for who, deny in self.denied.items()
        ]
        return {
            "position": 0,
            "permission_overwrites": overwrites,
            "nsfw": False,
            "topic": None,
            "parent_id": None,
        }

    def _thread_json(self) -> Json:
        assert self.parent is not None
        assert self.owner is not None
        count = len(self.messages)
        return {
            "parent_id": str(self.parent.id),
            "owner_id": str(self.owner.id),
            "message_count": count,
            "total_message_sent": count,
            "member_count": len(self.joined),
            "thread_metadata": {
                "archived": self.archived,
                "auto_archive_duration": 1440,
                "archive_timestamp": iso(born(self.id)),
                "locked": self.locked,
                "create_timestamp": iso(born(self.id)),
            },
        }
