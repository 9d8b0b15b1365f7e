"""Conversations read from files of other programs, ready to import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.ids import id_from
from agent.messages import Message
from agent.store import Address, SplitReason

PLATFORM = "import"
"""The platform of imported conversations."""


@dataclass(frozen=True, slots=True)
class ImportedSession:
    id: str
    created_at: float
    messages: Sequence[Message]
    """The messages in order, with ids derived from their original ids."""
    parent_id: str | None = None
    reason: SplitReason | None = None
    model: str = ""
    context: Sequence[str | Message] = ()
    """The context of the session: messages of its ancestors by id, summaries in full."""


@dataclass(frozen=True, slots=True)
class ImportedConversation:
    address: Address
    person: str
    sessions: Sequence[ImportedSession]
    """At least one session, parents before children."""
    live_session_id: str
    left_out: int = 0
    """The number of skipped entries, such as service notices and deleted messages."""

    @property
    def id(self) -> str:
        return id_from("conv", PLATFORM, self.address.chat_id)

    @property
    def messages(self) -> list[Message]:
        return [message for session in self.sessions for message in session.messages]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A conversation that cannot be imported although its file can be read."""

    address: Address
    detail: str


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of importing one conversation."""

    conversation_id: str
    is_new: bool
    messages: int
    """The number of new messages."""
    known: int


def address_of(source: str, chat_id: str) -> Address:
    """Return an address of the platform `import`, such as `telegram:4711`."""
    return Address(PLATFORM, f"{source}:{chat_id}")


def session_id(address: Address, name: str = "") -> str:
    return id_from("ses", PLATFORM, address.chat_id, name)


def message_id(address: Address, *names: str) -> str:
    return id_from("msg", PLATFORM, address.chat_id, *names)
