"""The base class of everything that is delivered to a chat, its calls, and its progress in the outbox."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

import structlog

from agent.errors import StoreError
from gateway.chat.adapter import ChatPort
from gateway.chat.delivery.pacing import ChatTarget
from gateway.chat.errors import DeliveryError
from gateway.core.events import NULL_OBSERVER, Observer
from gateway.store.ports import DeliveryProgress, Outbox, OutboxItem
from gateway.types import Button, Place

log = structlog.get_logger(__name__)


class OutboxTracker:
    """Collects the changes of outbox items and saves them before and after each call, in one transaction.

    Without an outbox nothing is saved, and delivery is best effort.
    """

    def __init__(
        self, platform: str = "", outbox: Outbox | None = None, observer: Observer = NULL_OBSERVER
    ) -> None:
        self.observer = observer
        self._platform = platform
        self._outbox = outbox
        self._changed: dict[str, OutboxItem] = {}
        self._unsaved: dict[str, OutboxItem] = {}
        """Items that the store did not accept; they are saved with the next change or by `retry_unsaved`."""

    @property
    def has_changes(self) -> bool:
        return bool(self._changed)

    def handle(self, item: OutboxItem) -> OutboxHandle | None:
        """Return a handle for the item, or None without an outbox."""
        return OutboxHandle(self, item) if self._outbox else None

    def record(self, item: OutboxItem, *, is_final: bool) -> None:
        """Schedule the item for the next save. Report a final one to the observer, unless it is transient."""
        self._changed[item.id] = item
        if is_final and item.kind != "transient":
            self.observer.delivered(self._platform, item.progress.state)

    def retry_unsaved(self) -> bool:
        """Schedule the items that the store did not accept. Return whether anything is to be saved."""
        self._changed = {**self._unsaved, **self._changed}
        return self.has_changes

    async def save(self) -> None:
        """Save all changes. A store failure does not stop delivery: people get their answer."""
        if self._outbox is None or not self._changed:
            return
        items = {**self._unsaved, **self._changed}
        self._unsaved, self._changed = items, {}
        try:
            await self._outbox.save_progress(self._platform, *items.values())
        except StoreError as error:
            log.warning("chat.progress_not_saved", platform=self._platform, error=type(error).__name__)
        else:
            self._unsaved = {}


class OutboxHandle:
    """One outbox item, through which its delivery item saves its progress."""

    def __init__(self, tracker: OutboxTracker, item: OutboxItem) -> None:
        self._tracker = tracker
        self.item = item

    def update(self, progress: DeliveryProgress) -> None:
        before = self.item.progress
        if progress != before:
            self.item = replace(self.item, progress=progress)
            is_final = progress.state in ("sent", "parked") and progress.state != before.state
            self._tracker.record(self.item, is_final=is_final)

    def complete(self) -> None:
        self.update(DeliveryProgress("sent", self.item.progress.shown_in))

    def discard(self) -> None:
        """Remove the item from the outbox."""
        self.item = replace(self.item, kind="transient")
        self.complete()

    def park(self, reason: str) -> None:
        """Mark the item as undeliverable; a transient one is complete instead."""
        if self.item.kind == "transient":
            self.complete()
        else:
            self.update(replace(self.item.progress, state="parked", reason=reason))


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

    def _complete_handle(self) -> None:
        if self.handle:
            self.handle.complete()
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
