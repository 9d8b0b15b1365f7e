"""What a platform hands in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field

from pydantic import TypeAdapter

from agent.ids import new_id
from agent.messages import ChatDict
from agent.store import Address
from gateway.inbox import Taken

OWNER = "owner"
"""The person at this machine: web chat and terminal share their memory and searches."""

SINGLE_QUESTION = "once_"
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


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is kept of a message to which a person comes and reads the answer; chats have more to keep."""

    address: Address
    person: str
    text: str


_KEPT = TypeAdapter(_Kept)


def as_taken(inbound: InboundMessage) -> Taken:
    kept = _Kept(inbound.address, inbound.person, inbound.text)
    return Taken(inbound.id, inbound.address.platform, asdict(kept))


def from_taken(taken: Taken) -> InboundMessage:
    """Raises ValueError for what was not made here."""
    kept = _KEPT.validate_python(taken.payload)
    return InboundMessage(kept.address, kept.person, kept.text, id=taken.id, is_taken=True)
