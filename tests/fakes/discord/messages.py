"""Messages and their files: as people see them, and as the API and the gateway describe them."""

from __future__ import annotations

import mimetypes
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Any

from tests.fakes.discord.errors import Json
from tests.fakes.discord.mentions import NO_PINGS, Pings
from tests.fakes.discord.time import born, iso

if TYPE_CHECKING:
    from tests.fakes.discord.places import Channel, User

SIGNED_FOR = 24 * 3600
"""Seconds an attachment's address is good for."""


class Type(IntEnum):
    DEFAULT = 0
    THREAD_CREATED = 18
    REPLY = 19
    CHAT_INPUT_COMMAND = 20
    THREAD_STARTER_MESSAGE = 21


class Flag(IntFlag):
    SUPPRESS_EMBEDS = 1 << 2
    EPHEMERAL = 1 << 6
    LOADING = 1 << 7
    SUPPRESS_NOTIFICATIONS = 1 << 12
    VOICE_MESSAGE = 1 << 13
    COMPONENTS_V2 = 1 << 15


NO_FLAGS = Flag(0)


@dataclass(frozen=True, slots=True)
class Upload:
    """A file on its way into a message."""

    filename: str
    data: bytes
    content_type: str = ""
    description: str | None = None
    duration: float | None = None
    """Seconds: this is a voice message."""


@dataclass(eq=False, slots=True)
class Attachment:
    id: int
    upload: Upload
    base_url: str
    """Where the server's files are, with the channel's id."""

    @property
    def filename(self) -> str:
        return self.upload.filename

    @property
    def data(self) -> bytes:
        return self.upload.data

    @property
    def content_type(self) -> str:
        guessed, _ = mimetypes.guess_type(self.filename)
        return self.upload.content_type or guessed or "application/octet-stream"

    def json(self) -> Json:
        expires = int(born(self.id)) + SIGNED_FOR
        url = f"{self.base_url}/{self.id}/{self.filename}?ex={expires:x}&is={int(born(self.id)):x}&hm=00"
        attachment: Json = {
            "id": str(self.id),
            "filename": self.filename,
            "size": len(self.data),
            "url": url,
            "proxy_url": url,
            "content_type": self.content_type,
        }
        if self.upload.description is not None:
            attachment["description"] = self.upload.description
        if self.upload.duration is not None:
            attachment |= {"duration_secs": self.upload.duration, "waveform": "AAAA"}
        return attachment


@dataclass(eq=False)
class Message:
    id: int
    channel: Channel
    author: User
    content: str = ""
    type: Type = Type.DEFAULT
    embeds: list[Json] = field(default_factory=list)
    components: list[Json] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    reply_to: Message | None = None
    flags: Flag = NO_FLAGS
    nonce: str | int | None = None
    webhook_id: int | None = None
    interaction: Json | None = None
    """`interaction_metadata`, when it answers a command."""
    only_for: User | None = None
    """The one person who sees it, when it is ephemeral."""
    pinged: Pings = NO_PINGS
    """Users notified when the message appeared. Edits notify no one."""
    mentioned: Pings = NO_PINGS
    """Users that the current text mentions."""
    edited_at: float | None = None
    deleted: bool = False
    versions: list[str] = field(default_factory=list)
    """Its text from the first to the present one."""
    reactions: dict[str, list[User]] = field(default_factory=dict)
    edits_in_flight: int = 0
    most_edits_in_flight: int = 0

    def __repr__(self) -> str:
        labels = [name for name in ("edited", "deleted", "thinking") if getattr(self, name)]
        return f"<Message {self.id} {self.author.name}: {self.content!r} {' '.join(labels)}>"

    @property
    def edited(self) -> bool:
        return self.edited_at is not None

    @property
    def thinking(self) -> bool:
        """It is the "thinking…" of a deferred answer."""
        return Flag.LOADING in self.flags

    @property
    def buttons(self) -> list[Json]:
        return [part for row in self.components for part in row.get("components", []) if part["type"] == 2]

    @property
    def labels(self) -> list[str]:
        """The buttons' labels, those that can be pressed."""
        return [button.get("label", "") for button in self.buttons if not button.get("disabled")]

    @property
    def is_empty(self) -> bool:
        return not (self.content or self.embeds or self.attachments)

    def readable_by_bot(self, *, has_content_intent: bool) -> bool:
        """Without the intent the bot reads its own, direct messages, and those that mention it."""
        bot = self.channel.state.bot
        return (
            has_content_intent
            or self.author is bot
            or self.channel.guild is None
            or bot in self.mentioned.users
        )

    def json(self, *, has_content_intent: bool = True, quoted: bool = False) -> Json:
        readable = self.readable_by_bot(has_content_intent=has_content_intent)
        message: Json = {
            "id": str(self.id),
            "channel_id": str(self.channel.id),
            "author": self.author.json(),
            "type": int(self.type),
            "content": self.content if readable else "",
            "embeds": self.embeds if readable else [],
            "attachments": [file.json() for file in self.attachments] if readable else [],
            "components": self.components if readable else [],
            "timestamp": iso(born(self.id)),
            "edited_timestamp": None if self.edited_at is None else iso(self.edited_at),
            "tts": False,
            "pinned": False,
            "flags": int(self.flags),
            "mention_everyone": self.mentioned.everyone,
            "mention_roles": [str(role) for role in self.mentioned.roles],
            "mentions": [self._with_member(user) for user in self.mentioned.users],
            "reactions": [self._reaction_json(emoji, users) for emoji, users in self.reactions.items()],
        }
        message |= self._optional_json()
        if self.reply_to is not None and not quoted:
            message |= self._reference_json(has_content_intent)
        return message

    def event(self, *, has_content_intent: bool) -> Json:
        """Return the gateway's form: with the guild and the author's membership."""
        event = {**self.json(has_content_intent=has_content_intent), "channel_type": int(self.channel.kind)}
        guild = self.channel.guild
        if guild is not None:
            event["guild_id"] = str(guild.id)
            if self.webhook_id is None and self.author.id in guild.members:
                event["member"] = guild.members[self.author.id].partial()
        return event

    def _with_member(self, user: User) -> Json:
        guild = self.channel.guild
        if guild is None or user.id not in guild.members:
            return user.json()
        return {**user.json(), "member": guild.members[user.id].partial()}

    def _optional_json(self) -> Json:
        optional: Json = {}
        if self.nonce is not None:
            optional["nonce"] = self.nonce
        if self.webhook_id is not None:
            optional["webhook_id"] = str(self.webhook_id)
        if self.interaction is not None:
            optional |= {"interaction_metadata": self.interaction, "application_id": str(self.webhook_id)}
        return optional

    def _reference_json(self, has_content_intent: bool) -> Json:
        quoted = self.reply_to
        assert quoted is not None
        reference: Json = {"type": 0, "message_id": str(quoted.id), "channel_id": str(quoted.channel.id)}
        if quoted.channel.guild is not None:
            reference["guild_id"] = str(quoted.channel.guild.id)
        shown: Any = None
        if not quoted.deleted:
            shown = quoted.json(has_content_intent=has_content_intent, quoted=True)
        return {"message_reference": reference, "referenced_message": shown}

    def _reaction_json(self, emoji: str, users: list[User]) -> Json:
        return {
            "emoji": {"id": None, "name": emoji},
            "count": len(users),
            "count_details": {"burst": 0, "normal": len(users)},
            "me": self.channel.state.bot in users,
            "me_burst": False,
            "burst_colors": [],
        }
