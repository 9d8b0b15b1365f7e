"""Messages that were taken: on the disk before their platform hears of it, and there until they are dealt with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from agent.store import SessionStore
from gateway.chat.contract import Place
from gateway.leases import Leases
from gateway.outbox import Outbox

Payload = dict[str, Any]
"""JSON: the message as its platform handed it in."""


@dataclass(frozen=True, slots=True)
class Taken:
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
class Room:
    """How many messages may wait in a chat."""

    in_all: int
    of_one_person: int


@dataclass(frozen=True, slots=True)
class Parked:
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

    async def take(self, taken: Taken, *, room: Room | None = None) -> bool:
        """On the disk when this returns. False if it was taken before. Raises QueueFull if there is no more room in its
        place."""
        ...

    async def rewrite(self, message_id: str, payload: Payload) -> bool:
        """Its author has changed it. False once its turn has begun."""
        ...

    async def waiting(self, platform: str) -> list[Taken]:
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

    async def parked(self) -> list[Parked]: ...

    async def counts(self) -> dict[tuple[str, str], int]:
        """How many are `waiting` and how many `parked`, by platform and state."""
        ...

    async def has_gone_on(self, message_id: str) -> bool:
        """Whether something was said in its conversation after it, or the conversation is in another session now."""
        ...

    async def unpark(self, message_id: str) -> Taken | None:
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
