"""Something to be shown, from its first call to its last."""

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
AT_ONCE = 0.0
"""Moments are times of the event loop's clock."""

POSSIBLY_TWICE = "(possibly sent twice)"
"""Stands on a message that is sent again because nobody knows whether it has arrived."""


class DeliveryItem(ABC):
    """Pure state: it says which call is due when, and hears what came of it.

    At most one of its calls is under way at any time; events may change it meanwhile. Pauses that the service asks
    for and moved chats are dealt with elsewhere: the block is asked again. Where it has an `entry`, it enters there how
    far it has come: that the next call may send something, before that call is made, and all the rest afterwards.
    """

    def __init__(self, venue: ChatTarget, entry: OutboxHandle | None = None) -> None:
        self.venue = venue
        self.entry = entry
        self.act = 0
        """Which of the turns that are shown it belongs to."""
        self.turn_id = ""
        """The message that this turn answers; empty outside any turn, and for what passes from turn to turn."""
        self.over = False
        """Nothing more will come of it."""
        self.lost = False
        """It was given up although it had to arrive: the rest of the turn would not arrive either."""
        self._failing_since: float | None = None

    @property
    def holds_back(self) -> bool:
        """Whether what comes after it has to wait."""
        return not self.over

    @abstractmethod
    def due(self) -> float:
        """When it has something to ask for: NEVER, until an event changes that."""

    @abstractmethod
    def call(self, now: float) -> Call:
        """What it asks for, now that it is due."""

    @abstractmethod
    def done(self, call: Call, message_id: str, now: float) -> None: ...

    @abstractmethod
    def failed(self, call: Call, error: DeliveryError, now: float) -> str:
        """Gives a sentence to be said instead, if there is one."""

    def put_off(self) -> None:
        """The call was not carried out, but the service is there: it is asked for again after a pause, however long."""
        self._failing_since = None

    def give_up(self, reason: str) -> None:
        """It will not be shown, also not after a restart."""
        if self.entry:
            self.entry.park(reason)
            self.entry = None

    def _is_hopeless(self, now: float) -> bool:
        """Whether a call that has to succeed has failed again and again for too long."""
        if self._failing_since is None:
            self._failing_since = now
        timing = self.venue.timing
        must_arrive = self.entry is not None and self.entry.outgoing.kind != "transient"
        return now - self._failing_since >= (timing.endurance if must_arrive else timing.patience)


@dataclass(frozen=True, slots=True)
class Send:
    text: str
    formatted: bool = False
    reply_to: str = ""
    buttons: tuple[Button, ...] = ()
    silent: bool = False

    async def make(self, port: ChatPort, place: Place) -> str:
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

    async def make(self, port: ChatPort, place: Place) -> str:
        await port.edit(place, self.message_id, self.text, formatted=self.formatted, buttons=self.buttons)
        return self.message_id


@dataclass(frozen=True, slots=True)
class Delete:
    message_id: str

    async def make(self, port: ChatPort, place: Place) -> str:
        await port.delete(place, self.message_id)
        return self.message_id


@dataclass(frozen=True, slots=True)
class SendFile:
    name: str
    read: Callable[[], bytes]
    """Called in a thread, each time anew: a file is not kept in memory while the service asks for patience."""
    caption: str = ""

    async def make(self, port: ChatPort, place: Place) -> str:
        data = await asyncio.to_thread(self.read)
        return await port.send_file(place, self.name, data, caption=self.caption)


Call = Send | Edit | Delete | SendFile
"""`make` gives the id of the message it was about."""
