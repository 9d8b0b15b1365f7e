"""Messages, places and people, as every chat platform and the gateway exchange them.

A platform adapter turns the service's events into these types. It decides nothing: access, joining and answers are
decided in `gateway/chat` and `gateway/core`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from agent.ids import new_id
from agent.messages import ChatDict
from agent.store import Address

ChatKind = Literal["direct", "group"]
AttachmentKind = Literal["image", "voice", "audio", "video", "document"]


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A slash command as a person gave it: `/compress billing` is `compress` with the argument `billing`."""

    name: str
    """In lower case, with hyphens for underscores."""
    argument: str = ""

    @property
    def text(self) -> str:
        return f"/{self.name} {self.argument}".rstrip()


def parse_command(text: str) -> CommandCall | None:
    """Parse `/word ...`. A path such as `/etc/hosts` and a lone slash are not commands."""
    if not text.startswith("/"):
        return None
    name, *rest = re.split(r"\s+", text[1:], maxsplit=1)
    name = command_name(name)
    if not name.replace("-", "").isalnum():
        return None
    return CommandCall(name, rest[0].strip() if rest else "")


def command_name(name: str) -> str:
    """Normalize a command's name. Telegram's menu allows no hyphen, so `/undo_compress` is `/undo-compress`."""
    return name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Place:
    """The chat that a message is sent to, or a topic or thread in it."""

    chat_id: str
    thread_id: str = ""
    kind: ChatKind = "direct"
    group_id: str = ""
    """The group as `allowed_groups` names it: Telegram's group, Discord's server. Empty in a direct chat."""


@dataclass(frozen=True, slots=True)
class Author:
    """The account that wrote a message or pressed a button. Only the id identifies it."""

    id: str
    """The service's id of the account."""
    name: str
    is_bot: bool = False


@dataclass(frozen=True, slots=True)
class Quote:
    """The message that another one replies to, or the quoted part of it."""

    author: str
    text: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message. It is fetched only if its sender may write to the bot."""

    name: str
    """As the sender wrote it; not to be trusted as a path."""
    mime: str
    kind: AttachmentKind
    size: int | None
    read: Callable[[int], Awaitable[bytes]]
    """Fetches the file, given the largest accepted size in bytes. Raises AttachmentRefused."""
    ref: str = ""
    """The reference by which `ChatPort.fetch` finds the file in another process."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message as the chat service delivered it."""

    id: str
    """The service's id, unique within a chat."""
    place: Place
    author: Author
    text: str
    """Without the mention of the bot; a command without the bot's name: `/compress billing`."""
    addressed: bool = True
    """In a group: the message mentions the bot, replies to it, or is a command for it."""
    quote: Quote | None = None
    attachments: tuple[Attachment, ...] = ()
    album: str = ""
    """Messages with the same album are one message."""
    maybe_unfinished: bool = False
    """The text is so long that the sender's client may have split it; more may follow at once."""
    written_at: float | None = None
    """By the service's clock, in seconds since 1970."""
    further_parts: tuple[str, ...] = ()
    """The ids of other messages that were merged into this one."""
    command: CommandCall | None = field(init=False, compare=False)
    """Parsed from `text`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "command", parse_command(self.text))


@dataclass(frozen=True, slots=True)
class Button:
    label: str
    data: str
    """Comes back in `Press.data`. At most 64 bytes."""


@dataclass(frozen=True, slots=True)
class Press:
    """A pressed button. Anyone who sees a button can press it."""

    place: Place
    author: Author
    message_id: str
    """The message with the button."""
    data: str


OWNER = "owner"
"""The person at this machine: web chat and terminal share their memory and searches."""

ONE_SHOT_PREFIX = "once_"
"""Prefix of the chat ids of `hermes chat -q`, which makes one for each question."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The account and the place in a chat service that a message came from."""

    author: Author
    place: Place


@dataclass(frozen=True, slots=True)
class InboundMessage:
    """A message from a person, in the form that every platform has in common."""

    address: Address
    person: str
    text: str
    id: str = field(default_factory=lambda: new_id("msg"))
    """Becomes the id of the stored message."""
    command: CommandCall | None = None
    """Set if the message is a slash command."""
    author: str = ""
    """The writer, such as `telegram:4711`, if `person` is a whole group."""
    is_admin: bool = False
    """Whether the writer is an admin of the bot."""
    parts: tuple[ChatDict, ...] = ()
    """Text and images, when the message is more than text."""

    may_approve: bool = True
    """Whether the writer may approve a dangerous tool call. In a group, not every member may."""
    group: str = ""
    """The group as `allowed_groups` names it. Empty in a direct chat."""
    merged_ids: tuple[str, ...] = ()
    """The ids of other messages that were merged into this one."""
    is_resumed: bool = False
    """Whether the message is stored in its conversation: its turn was running when Hermes stopped."""
    attempts: int = 0
    """How often this process began the message's turn before."""
    origin: Origin | None = None
    """The author and the place in a chat service. None for web and terminal."""

    @property
    def sender(self) -> str:
        return self.author or self.person

    @property
    def is_by_admin(self) -> bool:
        return self.is_admin or self.sender == OWNER
