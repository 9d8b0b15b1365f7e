"""What every reader of a foreign file makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.ids import id_from
from agent.messages import Message
from agent.store import Address, SplitReason

PLATFORM = "import"
"""Of the addresses of all that was taken in."""


@dataclass(frozen=True, slots=True)
class ImportedSession:
    id: str
    created_at: float
    messages: Sequence[Message]
    """In order, with ids made from those they had."""
    parent_id: str | None = None
    reason: SplitReason | None = None
    model: str = ""
    context: Sequence[str | Message] = ()
    """What it began with: messages of its ancestors by id, a summary whole."""


@dataclass(frozen=True, slots=True)
class ImportedConversation:
    address: Address
    person: str
    sessions: Sequence[ImportedSession]
    """At least one, parents before their children."""
    live_session_id: str
    left_out: int = 0
    """Messages that are none: what a service notes by itself, and what was taken back."""

    @property
    def id(self) -> str:
        return id_from("conv", PLATFORM, self.address.chat_id)

    @property
    def messages(self) -> list[Message]:
        return [message for session in self.sessions for message in session.messages]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """One conversation of a file that cannot be taken in, although the file is good."""

    address: Address
    detail: str


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What came of one conversation."""

    conversation_id: str
    is_new: bool
    messages: int
    """That were not there before."""
    known: int


def address_of(source: str, chat_id: str) -> Address:
    """`telegram:4711`, of the platform `import`."""
    return Address(PLATFORM, f"{source}:{chat_id}")


def session_id(address: Address, name: str = "") -> str:
    return id_from("ses", PLATFORM, address.chat_id, name)


def message_id(address: Address, *names: str) -> str:
    return id_from("msg", PLATFORM, address.chat_id, *names)
