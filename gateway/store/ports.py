"""The store of the gateway as the rest of Hermes sees it: `GatewayStore` and its parts."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from pydantic import TypeAdapter

from agent.events import FileSent
from agent.messages import Message
from agent.store import Overview, Session, SessionStore
from gateway.store.access import Access
from gateway.store.import_types import ImportedConversation, ImportResult
from gateway.store.reports import ParkedItem, Reports
from gateway.types import Place


class TurnStore(Protocol):
    """The parts of the store that a turn writes to."""

    @property
    def sessions(self) -> SessionStore: ...

    @property
    def inbox(self) -> Inbox: ...

    @property
    def outbox(self) -> Outbox: ...


class GatewayStore(TurnStore, Protocol):
    """Everything that Hermes stores. Made by `gateway.store.open_store`."""

    @property
    def leases(self) -> Leases: ...

    @property
    def access(self) -> Access: ...

    @property
    def reports(self) -> Reports: ...

    @property
    def imports(self) -> Imports: ...

    @property
    def export(self) -> Export: ...

    @property
    def health(self) -> StoreHealth: ...

    def fenced(self, fence: Fence) -> TurnStore:
        """Return a view whose writes raise LeaseLost once another process holds the lease."""
        ...

    async def close(self) -> None: ...


# -- leases


@dataclass(frozen=True, slots=True)
class Fence:
    """Proof that its holder had the lease of a conversation: the store refuses writes with an outdated token."""

    conversation_id: str
    token: int


class Leases(Protocol):
    """At most one process works on a conversation at a time."""

    async def acquire(self, conversation_id: str, *, holder: str, seconds: float) -> int | None:
        """Return the fencing token, or None while another process holds the lease."""
        ...

    async def renew(self, conversation_ids: Collection[str], *, holder: str, seconds: float) -> None:
        """Extend those of these leases that the holder still has."""
        ...

    async def release(self, conversation_id: str, *, holder: str) -> None: ...

    async def expire_all(self) -> None:
        """Expire every lease. Only for a process that knows that all other holders are dead."""
        ...


# -- inbox

Payload = dict[str, Any]
"""A message as its platform handed it in, as JSON."""


@dataclass(frozen=True, slots=True)
class InboxMessage:
    """A message from a person, stored until it is answered."""

    id: str
    """Becomes the id of the message in the conversation."""
    platform: str
    payload: Payload
    place: Place | None = None
    """The chat to reply to. None on platforms that the author reads from, such as the web page."""
    number: str = ""
    """The id of the message on its platform, if it has one."""
    attempts: int = 0
    """How many turns were started for this message. A turn of a waiting message can only end with its process."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How many messages may wait in a chat."""

    total: int
    per_person: int


class Inbox(Protocol):
    """Messages from people: stored before the platform gets an acknowledgement, done when they are answered."""

    async def first_seen_at(self, platform: str) -> float:
        """Return when this method was first called for the platform."""
        ...

    async def add(self, message: InboxMessage, *, limits: QueueLimits | None = None) -> bool:
        """Store the message durably. False if it is stored already. Raises QueueFull."""
        ...

    async def replace_payload(self, message_id: str, payload: Payload) -> bool:
        """Replace a message that its author edited. False once a turn has started for it."""
        ...

    async def waiting(self, platform: str) -> list[InboxMessage]:
        """Return the messages that are not done, in the order in which they came."""
        ...

    async def is_waiting(self, message_id: str) -> bool: ...

    async def latest_ids(self, platform: str, *, limit: int) -> dict[Place, str]:
        """Return the highest platform id of a message in each chat, chats with recent messages first."""
        ...

    async def start_attempt(self, message_id: str) -> int:
        """Count one more turn for the message. Returns the new count; 0 if the message is not stored."""
        ...

    async def cancel_attempt(self, message_id: str, times: int = 1) -> None:
        """Subtract turns that ended in an orderly stop."""
        ...

    async def mark_done(
        self, message_ids: Sequence[str], *, conversation_id: str = "", notice_id: str = "", notice: str = ""
    ) -> bool:
        """Mark messages as answered. A notice becomes an outbox row that replies to the first of them; returns
        whether that row has to be delivered."""
        ...

    async def park(
        self,
        message_ids: Sequence[str],
        reason: str,
        *,
        conversation_id: str = "",
        notice_id: str = "",
        notice: str = "",
    ) -> bool:
        """Park the first message and mark the others, which are parts of it, as done. The notice is as in
        `mark_done`."""
        ...

    async def purge_old(self) -> None:
        """Delete done messages that no service delivers again, and delivered replies of that age."""
        ...

    async def parked(self) -> list[ParkedItem]: ...

    async def counts(self) -> dict[tuple[str, str], int]:
        """Return how many messages are `waiting` and `parked`, by platform and state."""
        ...

    async def is_superseded(self, message_id: str) -> bool:
        """Tell whether the person wrote again after this message, or the conversation is in another session now."""
        ...

    async def unpark(self, message_id: str) -> InboxMessage | None:
        """Let a parked message wait again as if it were new. None if it is not parked."""
        ...

    async def dismiss(self, message_id: str) -> bool:
        """Mark a parked message as done. False if it is not parked."""
        ...


# -- outbox

UNREADABLE = "It was written by another version of Hermes and cannot be read."
"""The reason for which a row is parked that cannot be parsed."""

OutboxKind = Literal["text", "notice", "file", "transient"]
DeliveryState = Literal["pending", "sending", "sent", "parked"]


@dataclass(frozen=True, slots=True)
class DeliveryProgress:
    """How far the delivery of an outbox item has come."""

    state: DeliveryState = "pending"
    """`sending` also means that the outcome of an earlier call is unknown: the next call may send a duplicate."""
    shown_in: tuple[str, ...] = ()
    """The platform ids of the messages that show the item, the newest last."""
    is_streaming: bool = False
    """The newest message is unfinished and will be edited."""
    sent_chars: int = 0
    """How many characters finished messages account for, apart from `remainder`."""
    remainder: str = ""
    """The part of those characters that is not shown yet; it reopens a code block that continues."""
    reason: str = ""
    """Why the item was parked."""


@dataclass(frozen=True, slots=True)
class OutboxItem:
    """A reply on its way to a chat."""

    id: str
    conversation_id: str
    turn_id: str
    """The inbox message that the item answers."""
    reply_to: str
    """The platform id of that message."""
    place: Place
    kind: OutboxKind
    content: str | None
    """None while the model is still writing. For a transient item: its final text, or None if it is to be deleted."""
    progress: DeliveryProgress = field(default_factory=DeliveryProgress)


class Outbox(Protocol):
    """Replies to people and the progress of their delivery."""

    async def add(
        self, item_id: str, *, conversation_id: str, turn_id: str, kind: OutboxKind, content: str
    ) -> bool:
        """Add a notice or file that answers an inbox message. False if its author reads replies on the platform
        itself, so that there is nothing to deliver."""
        ...

    async def save_progress(self, platform: str, *items: OutboxItem) -> None:
        """Save the progress of all items or of none: before a call whose outcome may stay unknown, and after it.

        Adds an item that is not stored yet. A stored item keeps its content until it is sent; then only the fact is
        kept, and a transient item is deleted."""
        ...

    async def discard_unfinished(self, platform: str) -> None:
        """At start-up, before anything is sent, discard texts that the model had not finished: it writes them again.
        Messages that show such a text become transient items to delete."""
        ...

    async def undelivered(self, platform: str) -> list[OutboxItem]:
        """Return the items that are neither sent nor parked, in order."""
        ...

    async def counts(self) -> dict[tuple[str, str], int]:
        """Return how many items are `pending`, `sending` and `parked`, by platform and state."""
        ...

    async def parked(self) -> list[ParkedItem]: ...

    async def is_parked(self, item_id: str) -> bool: ...

    async def may_be_half_seen(self, turn_id: str) -> bool:
        """Tell whether part of an unfinished answer to this message may be visible in a message of unknown id."""
        ...

    async def unpark(self, item_id: str) -> tuple[str, OutboxItem] | None:
        """Resume the delivery of a parked item; returns it with its platform. None if the item is not parked or
        cannot be read."""
        ...

    async def dismiss(self, item_id: str) -> bool:
        """Give up a parked item. False if it is not parked."""
        ...


_FILE = TypeAdapter(FileSent)


def file_content(file: FileSent) -> str:
    """Encode a file as the content of its row: its path, not its bytes."""
    return json.dumps(asdict(file), ensure_ascii=False)


def file_from(content: str) -> FileSent:
    """Decode the result of `file_content`. Raises ValueError."""
    return _FILE.validate_json(content)


# -- imports, export, health


class Imports(Protocol):
    """Conversations from other programs."""

    async def add(self, imported: ImportedConversation) -> ImportResult:
        """Store the conversation in one transaction. Messages that are stored already stay as they are."""
        ...

    async def preview(self, imported: ImportedConversation) -> ImportResult:
        """Return the result that `add` would have."""
        ...


class Snapshot(Protocol):
    """All conversations as they were when the snapshot was opened. Its methods block; messages are read in batches."""

    def conversations(
        self, *, person: str | None = None, platform: str | None = None, since: float = 0.0
    ) -> list[Overview]:
        """Return conversations with messages since then, the one with the oldest activity first."""
        ...

    def sessions(self, conversation_id: str) -> list[Session]: ...

    def messages(
        self, conversation_id: str, *, since: float = 0.0, every_session: bool = False
    ) -> Iterator[Message]:
        """Yield the messages of the live session and its ancestors, or of `every_session`, oldest first."""
        ...


class Export(Protocol):
    """Reads all conversations while others write."""

    def snapshot(self) -> AbstractContextManager[Snapshot]: ...


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings of `StoreHealth.diagnose`."""

    index_damage: str | None
    parked: list[ParkedItem]
    log_bytes: int
    """The size of the write-ahead log."""


class StoreHealth(Protocol):
    """Checks and repairs of the database."""

    @property
    def damage(self) -> str:
        """The damage that a query or the last `check_integrity` found; empty if none is known."""
        ...

    async def check_writable(self) -> None:
        """Raise StoreError if nothing can be written now. Changes nothing."""
        ...

    async def check_integrity(self) -> None:
        """Read the whole database and set `damage`."""
        ...

    async def monitor(self) -> None:
        """Check the integrity once a day, and more often while damage is known. Never returns."""
        ...

    async def diagnose(self) -> Diagnosis:
        """Read the whole database. Raises StoreCorrupt."""
        ...

    async def rebuild_index(self) -> int:
        """Rebuild the search index; a gateway may run meanwhile. Returns the number of messages in it."""
        ...

    async def finish_index(self) -> None:
        """Index all messages now, so that the next search need not."""
        ...
