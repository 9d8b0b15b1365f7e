"""What a platform hands in."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.ids import new_id
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
