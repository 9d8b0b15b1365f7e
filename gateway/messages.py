"""What a platform hands in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from agent.ids import new_id
from agent.messages import ChatDict
from agent.store import Address

OWNER = "owner"
"""The person at this machine: web chat and terminal share their memory and searches."""


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
    still_allowed: Callable[[], Awaitable[bool]] | None = field(default=None, repr=False, compare=False)
    """Asked when a message that has waited gets its turn: its author may have been sent away meanwhile."""

    @property
    def by(self) -> str:
        return self.author or self.person
