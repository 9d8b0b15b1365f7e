"""The base class of everything that is delivered to a chat, and the calls that deliver it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from gateway.chat.adapter import ChatPort
from gateway.chat.delivery.outbox_tracker import OutboxHandle
from gateway.chat.delivery.pacing import ChatTarget
from gateway.chat.errors import DeliveryError
from gateway.types import Button, Place

NEVER = inf
IMMEDIATELY = 0.0
"""Points in time on the event loop's clock."""

POSSIBLY_TWICE = "(possibly sent twice)"
"""Marks a message that is sent again although the first attempt may have arrived."""


class DeliveryItem(ABC):
    """One thing to deliver, as plain state: it decides which call is due when, and reacts to the result.

    At most one of its calls is in flight at any time; events may change the item meanwhile. The sender handles rate
    limits and moved chats, and then asks the item again. An item with a `handle` saves its progress there: before a
    call that may send something, and after each call.
    """

    def __init__(self, target: ChatTarget, handle: OutboxHandle | None = None) -> None:
        self.target = target
        self.handle = handle
        self.turn_no = 0
        """The number of the turn in its queue."""
        self.turn_id = ""
        """The message that the turn answers; empty outside a turn, and for items that outlive their turn."""
        self.finished = False
        self.failed = False
        """The item had to arrive and was abandoned: the rest of its turn is not tried either."""
        self._failing_since: float | None = None

    @property
    def blocks_later(self) -> bool:
        """Whether later items of the queue must wait."""
        return not self.finished

    @abstractmethod
    def due(self) -> float:
        """Return when the next call is due; NEVER until an event changes that."""

    @abstractmethod
    def next_call(self, now: float) -> Call:
        """Return the call that is due now."""

    @abstractmethod
    def on_success(self, call: Call, message_id: str, now: float) -> None: ...

    @abstractmethod
    def on_error(self, call: Call, error: DeliveryError, now: float) -> str:
        """Handle a failed call; return a notice to send in its place, or an empty string."""

    def reschedule(self) -> None:
        """Expect the call again after a pause: the service is reachable but did not execute it."""
        self._failing_since = None

    def abandon(self, reason: str) -> None:
        """Give up delivery permanently, also after a restart."""
        if self.handle:
            self.handle.park(reason)
            self.handle = None

    def _has_timed_out(self, now: float) -> bool:
        """Return whether calls have failed for too long. The first failure starts the clock."""
        if self._failing_since is None:
            self._failing_since = now
        timing = self.target.timing
        is_durable = self.handle is not None and self.handle.item.kind != "transient"
        return now - self._failing_since >= (
            timing.durable_timeout if is_durable else timing.best_effort_timeout
        )


@dataclass(frozen=True, slots=True)
class Send:
    text: str
    formatted: bool = False
    reply_to: str = ""
    buttons: tuple[Button, ...] = ()
    silent: bool = False

    async def execute(self, port: ChatPort, place: Place) -> str:
        return await port.send(
            place,
            self.text,
            formatted=self.formatted,
            reply_to=self.reply_to,
            buttons=self.buttons,
            silent=self.silent,
        )


@dataclass(frozen=True, slots=True)
class Edit:
    message_id: str
    text: str
    formatted: bool = False
    buttons: tuple[Button, ...] = ()

    async def execute(self, port: ChatPort, place: Place) -> str:
        await port.edit(place, self.message_id, self.text, formatted=self.formatted, buttons=self.buttons)
        return self.message_id


@dataclass(frozen=True, slots=True)
class Delete:
    message_id: str

    async def execute(self, port: ChatPort, place: Place) -> str:
        await port.delete(place, self.message_id)
        return self.message_id


@dataclass(frozen=True, slots=True)
class SendFile:
    name: str
    read: Callable[[], bytes]
    """Runs in a thread at each attempt, so that a waiting file needs no memory."""
    caption: str = ""

    async def execute(self, port: ChatPort, place: Place) -> str:
        data = await asyncio.to_thread(self.read)
        return await port.send_file(place, self.name, data, caption=self.caption)


Call = Send | Edit | Delete | SendFile
"""`execute` returns the id of the message."""
