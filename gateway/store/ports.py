"""Messages that were taken: on the disk before their platform hears of it, and there until they are dealt with."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from pydantic import TypeAdapter

from agent.errors import HermesError
from agent.events import FileSent
from agent.store import SessionStore
from gateway.types import Place


@dataclass(frozen=True, slots=True)
class Fence:
    conversation_id: str
    token: int


fence: ContextVar[Fence | None] = ContextVar("fence", default=None)
"""What the writes of the present task, and of all tasks that it starts, are checked against."""


class Leases(Protocol):
    async def acquire(self, conversation_id: str, *, holder: str, seconds: float) -> int | None:
        """Its token, or None while somebody else has it."""
        ...

    async def renew(self, conversation_ids: Collection[str], *, holder: str, seconds: float) -> None:
        """Prolongs those of these leases that the holder still has."""
        ...

    async def release(self, conversation_id: str, *, holder: str) -> None: ...

    async def expire_all(self) -> None:
        """For whoever knows that all other holders are dead."""
        ...


UNREADABLE = "It was written down by another version of Hermes and cannot be read."
"""Why something is parked that nothing can be made of."""

Kind = Literal["text", "notice", "file", "fleeting"]
State = Literal["pending", "sending", "sent", "parked"]


@dataclass(frozen=True, slots=True)
class DeliveryProgress:
    """How far one of them has come."""

    state: State = "pending"
    """`sending` also where an earlier call is in doubt: what is sent next may be there twice."""
    shown_in: tuple[str, ...] = ()
    """The service's ids of the messages that show it, the newest last."""
    growing: bool = False
    """The newest of them is unfinished: it is still to be edited."""
    dealt: int = 0
    """Characters that are dealt with in finished messages, but for `rest`."""
    rest: str = ""
    """What of those is still to be shown; a code block that goes on is opened again in it."""
    reason: str = ""
    """Why it was parked."""


@dataclass(frozen=True, slots=True)
class OutboxItem:
    id: str
    conversation_id: str
    turn_id: str
    """The inbox message that it answers."""
    reply_to: str
    """That one's id on the service."""
    place: Place
    kind: Kind
    content: str | None
    """None while the model is still writing it. Of a passing remark: what it is to say in the end, or None if it is to
    go."""
    progress: DeliveryProgress = field(default_factory=DeliveryProgress)


class Outbox(Protocol):
    async def add(
        self, outgoing_id: str, *, conversation_id: str, turn_id: str, kind: Kind, content: str
    ) -> bool:
        """A notice or a file that answers this message. False where its author comes and reads, as on the page: then
        there is nothing to bring."""
        ...

    async def note(self, platform: str, *outgoing: OutboxItem) -> None:
        """How far they have come, all of them or none: before a call whose outcome may stay unknown, and after it.

        One that is not known yet is from now on: a text that is shown while it is being written, or a passing remark.
        One that is known keeps its content, until it has arrived; then only that fact is kept, and nothing at all of a
        passing remark."""
        ...

    async def withdraw(self, platform: str) -> None:
        """At a start, before anything is sent: texts that the model had not finished are written anew. What is seen of
        them becomes something that must not stay; only the doubt whether there is more of it stays with them."""
        ...

    async def open(self, platform: str) -> list[OutboxItem]:
        """What was neither sent nor parked, in order."""
        ...

    async def counts(self) -> dict[tuple[str, str], int]:
        """How many are `pending`, `sending` and `parked`, by platform and state."""
        ...

    async def is_parked(self, outgoing_id: str) -> bool: ...

    async def may_be_half_seen(self, turn_id: str) -> bool:
        """Whether a part of an unfinished answer to this message may be visible in a message whose id is unknown."""
        ...

    async def unpark(self, outgoing_id: str) -> tuple[str, OutboxItem] | None:
        """It is on its way again, on this platform, from where it had come to. None if it is not parked, or if nothing
        can be made of it."""
        ...

    async def dismiss(self, outgoing_id: str) -> bool:
        """Nothing is left to be done about it. False if it is not parked."""
        ...


def file_content(file: FileSent) -> str:
    """A file as the content of its row: where it lies, not what is in it."""
    return json.dumps(asdict(file), ensure_ascii=False)


def file_from(content: str) -> FileSent:
    """Raises ValueError for what was not made here."""
    return _FILE.validate_json(content)


_FILE = TypeAdapter(FileSent)


Payload = dict[str, Any]
"""JSON: the message as its platform handed it in."""


@dataclass(frozen=True, slots=True)
class InboxMessage:
    """A message in the inbox."""

    id: str
    """Becomes the id of the stored message."""
    platform: str
    payload: Payload
    place: Place | None = None
    """Where its reply has to be brought. None where whoever wrote it comes and reads, as on the page."""
    number: str = ""
    """What the platform calls it, if it calls it anything."""
    attempts: int = 0
    """How often its turn has begun. No turn of a waiting message ended but by the death of the process."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How many messages may wait in a chat."""

    in_all: int
    of_one_person: int


@dataclass(frozen=True, slots=True)
class ParkedItem:
    """What Hermes has given up on: a message that could not be answered, or a reply that could not be delivered."""

    kind: Literal["message", "reply"]
    id: str
    platform: str
    chat_id: str
    """Empty where nothing is brought to anybody, as on the page."""
    since: float
    reason: str


class Inbox(Protocol):
    async def listening_since(self, platform: str) -> float:
        """When this was first asked for the bot."""
        ...

    async def take(self, taken: InboxMessage, *, room: QueueLimits | None = None) -> bool:
        """On the disk when this returns. False if it was taken before. Raises QueueFull if there is no more room in its
        place."""
        ...

    async def rewrite(self, message_id: str, payload: Payload) -> bool:
        """Its author has changed it. False once its turn has begun."""
        ...

    async def waiting(self, platform: str) -> list[InboxMessage]:
        """What is not dealt with, in the order it was taken."""
        ...

    async def is_waiting(self, message_id: str) -> bool: ...

    async def newest(self, platform: str, *, limit: int) -> dict[Place, str]:
        """The highest number that was taken in each place; the places that were busy last come first."""
        ...

    async def begin(self, message_id: str) -> int:
        """Work on it begins. How often that has happened, this time included; 0 if it was never taken."""
        ...

    async def settle(
        self, message_ids: Sequence[str], *, conversation_id: str = "", notice_id: str = "", notice: str = ""
    ) -> bool:
        """They are dealt with. The notice that says so, if there is one, answers the first of them; whether it has to
        be brought to somebody."""
        ...

    async def unbegin(self, message_id: str, times: int = 1) -> None:
        """The last so many times do not count."""
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
        """The first of them is given up on; the others are parts of it. The notice is as with `settle`."""
        ...

    async def tidy(self) -> None:
        """Forgets what was dealt with so long ago that no service can deliver it again, and its replies."""
        ...

    async def parked(self) -> list[ParkedItem]: ...

    async def counts(self) -> dict[tuple[str, str], int]:
        """How many are `waiting` and how many `parked`, by platform and state."""
        ...

    async def has_gone_on(self, message_id: str) -> bool:
        """Whether something was said in its conversation after it, or the conversation is in another session now."""
        ...

    async def unpark(self, message_id: str) -> InboxMessage | None:
        """It waits again, as if it had just come. None if it is not parked."""
        ...

    async def dismiss(self, message_id: str) -> bool:
        """It is dealt with. False if it is not parked."""
        ...


class SignOuts(Protocol):
    """Cookies of the web chat that are worthless, by their digests."""

    async def add(self, digest: str, *, until: float, now: float) -> None: ...

    async def all(self) -> set[str]: ...


class GatewayStore(SessionStore, Protocol):
    """What the gateway keeps beside conversations."""

    @property
    def inbox(self) -> Inbox: ...

    @property
    def outbox(self) -> Outbox: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def sign_outs(self) -> SignOuts: ...

    @property
    def damage(self) -> str:
        """What is known to be wrong with the file in which all this is kept; empty while nothing is."""
        ...

    async def try_to_write(self) -> None:
        """Raises StoreError if nothing can be written now. Changes nothing."""
        ...


_NUMBER = re.compile(r"-?[0-9]{1,30}")


@dataclass(frozen=True, slots=True)
class PairingRequest:
    """Somebody who was given a code and waits for the owner. The code itself is kept by nobody but them."""

    platform: str
    """The bot they wrote to: `telegram`, or `telegram/work`."""
    user_id: str
    name: str
    """What they call themselves. It proves nothing."""
    asked_at: float
    expires_at: float


@dataclass(frozen=True, slots=True)
class Paired:
    """Somebody who may talk to this one bot in a direct chat."""

    platform: str
    user_id: str
    name: str
    approved_by: str
    approved_at: float


@dataclass(frozen=True, slots=True)
class AskingLimits:
    """How many codes there may be, so that strangers can neither collect them nor bury the owner in them."""

    per_person: int
    period_seconds: float
    """In which `per_person` counts."""
    pending: int
    """On one platform at a time."""


@dataclass(frozen=True, slots=True)
class GuessingLimits:
    """After so many wrong codes within so many seconds, nothing is approved for as long."""

    wrong_codes: int
    seconds: float


class PairingLocked(HermesError):
    """Too many wrong codes were tried, so nobody can be approved for now; try again later."""

    def __init__(self, detail: str = "", *, until: float = 0.0) -> None:
        super().__init__(detail)
        self.until = until


class People(Protocol):
    """Every verb is one transaction. Ids are numbers in plain digits; codes come as their digests."""

    async def is_approved(self, platform: str, user_id: str) -> bool:
        """As of now, also if another process has just changed it."""
        ...

    async def ask(self, request: PairingRequest, digest: str, limits: AskingLimits) -> bool:
        """Notes the request under its code, in place of an earlier one; False where that is one too many."""
        ...

    async def is_pending(self, platform: str, digest: str, *, now: float) -> bool: ...

    async def approve(self, digest: str, *, by: str, now: float, limits: GuessingLimits) -> Paired | None:
        """None for a code that is unknown or too old, which counts as wrong. Raises PairingLocked."""
        ...

    async def deny(self, digest: str, *, now: float) -> bool: ...

    async def approve_person(self, platform: str, user_id: str, *, by: str, now: float) -> Paired | None:
        """Without their code, by somebody who sees the list of those who wait. None if they do not."""
        ...

    async def deny_person(self, platform: str, user_id: str, *, now: float) -> bool: ...

    async def revoke(self, platform: str, user_id: str) -> bool: ...

    async def pending(self, *, now: float) -> list[PairingRequest]:
        """The earliest first."""
        ...

    async def approved(self) -> list[Paired]:
        """By platform, the earliest first."""
        ...


def number_in(text: str) -> int | None:
    """The number of an account or a group; None for anything else, such as a name."""
    return int(text) if _NUMBER.fullmatch(text) else None


def person_in(text: str) -> int | None:
    """The number of a person's account. Groups and channels have negative ones, and those can be senders too."""
    number = number_in(text)
    return number if number is not None and number > 0 else None
