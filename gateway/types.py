"""Between a chat service and the rest: what its adapter hands in, and what it can be asked to do.

An adapter turns the service's events into these types and gives them to a `ChatDesk`; it implements `ChatPort` for
the way out. It decides nothing: who may talk, what is answered, where a long text is cut is decided once, elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from agent.ids import new_id
from agent.messages import ChatDict
from agent.store import Address

ChatKind = Literal["direct", "group"]
AttachmentKind = Literal["image", "voice", "audio", "video", "document"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where messages go: a chat, or a topic or thread in it."""

    chat_id: str
    thread_id: str = ""
    kind: ChatKind = "direct"
    group_id: str = ""
    """What `allowed_groups` names: Telegram's group, Discord's server. Empty in a direct chat."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who wrote, pressed or reacted. Only the id says who it is."""

    id: str
    """The service's number for the account, as text."""
    name: str
    is_bot: bool = False


@dataclass(frozen=True, slots=True)
class Quote:
    """What a message replies to, or the part of it that was quoted."""

    author: str
    text: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message; it is fetched only once somebody who may write has sent it."""

    name: str
    """As the sender wrote it: not to be trusted as a path."""
    mime: str
    kind: AttachmentKind
    size: int | None
    read: Callable[[int], Awaitable[bytes]]
    """Fetches it. Gets the most bytes that are wanted; raises AttachmentRefused with a sentence."""
    ref: str = ""
    """What `ChatPort.fetch` finds it by, in another process."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message as the service delivered it."""

    id: str
    """The service's own; unique within a chat."""
    place: Place
    author: Author
    text: str
    """Without the mention of the bot; a command without the bot's name: `/compress billing`."""
    addressed: bool = True
    """In a group: it mentions the bot, replies to it, or is a command for it."""
    quote: Quote | None = None
    attachments: tuple[Attachment, ...] = ()
    album: str = ""
    """Messages with the same album are one."""
    maybe_unfinished: bool = False
    """So long that the sender's program may have cut it; more may follow at once."""
    written_at: float | None = None
    """By the service's clock, in seconds since 1970."""
    further_parts: tuple[str, ...] = ()
    """The ids of other messages that are one with this."""


@dataclass(frozen=True, slots=True)
class Button:
    label: str
    data: str
    """Comes back in `Press.data`. At most 64 bytes."""


@dataclass(frozen=True, slots=True)
class Press:
    """A button was pressed. Who pressed it need not be who it was meant for."""

    place: Place
    author: Author
    message_id: str
    """The message with the button."""
    data: str


OWNER = "owner"
"""The person at this machine: web chat and terminal share their memory and searches."""

ONE_SHOT_PREFIX = "once_"
"""How the chat ids begin that `hermes chat -q` makes: one for each question, and a script may ask hundreds."""


@dataclass(frozen=True, slots=True)
class InboundMessage:
    """One message from a person, already stripped of everything that is the platform's own."""

    address: Address
    person: str
    text: str
    id: str = field(default_factory=lambda: new_id("msg"))
    """Becomes the id of the stored message."""
    author: str = ""
    """Who wrote it, where `person` stands for a whole group: `telegram:4711`."""
    is_admin: bool = False
    """Whether the author may do what only the owner and the admins may."""
    parts: tuple[ChatDict, ...] = ()
    """Text and images, when it is more than text."""

    may_approve: bool = True
    """Whether the author's word is enough to run a dangerous tool. Not for just anybody in a group."""
    group: str = ""
    """What `allowed_groups` calls the group it was written in. Empty in a direct chat."""
    joined: tuple[str, ...] = ()
    """The ids of other messages that are a part of this one."""
    is_taken: bool = False
    """It is in the inbox already."""
    has_begun: bool = False
    """It is stored in its conversation: its turn was under way when Hermes was stopped."""
    tried: int = 0
    """How often its turn was begun before, in this process."""
    still_allowed: Callable[[], Awaitable[bool]] | None = field(default=None, repr=False, compare=False)
    """Asked when a message that has waited gets its turn: its author may have been sent away meanwhile."""

    @property
    def by(self) -> str:
        return self.author or self.person

    @property
    def is_by_admin(self) -> bool:
        return self.is_admin or self.by == OWNER
