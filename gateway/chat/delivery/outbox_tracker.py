"""Tracks delivery progress in the outbox so that delivery can resume after a crash."""

from __future__ import annotations

from dataclasses import replace

import structlog

from agent.errors import StoreError
from gateway.core.observer import NULL_OBSERVER, DeliveryObserver
from gateway.store.ports import DeliveryProgress, Outbox, OutboxItem

log = structlog.get_logger(__name__)


class OutboxTracker:
    """Collects the changes of outbox items and saves them before and after each call, in one transaction.

    Without an outbox nothing is saved, and delivery is best effort.
    """

    def __init__(
        self, platform: str = "", outbox: Outbox | None = None, observer: DeliveryObserver = NULL_OBSERVER
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

    def record(self, item: OutboxItem) -> None:
        """Schedule the item for the next save."""
        self._changed[item.id] = item

    def report_final(self, item: OutboxItem) -> None:
        """Report a sent or parked item to the observer; transient ones do not count."""
        if item.kind != "transient":
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
            self._tracker.record(self.item)
            if progress.state in ("sent", "parked") and progress.state != before.state:
                self._tracker.report_final(self.item)

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
