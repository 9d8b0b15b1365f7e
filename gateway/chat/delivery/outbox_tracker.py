"""What the outbox has to know of what is shown, so that it can be gone on with after a crash."""

from __future__ import annotations

from dataclasses import replace

import structlog

from agent.errors import StoreError
from gateway.core.observer import NULL_OBSERVER, DeliveryObserver
from gateway.store.ports import DeliveryProgress, Outbox, OutboxItem

log = structlog.get_logger(__name__)


class OutboxTracker:
    """Entries are made at once, and written before and after each call: all that have changed in one transaction.

    Without an outbox nothing is written, and what is shown is shown as well as it goes.
    """

    def __init__(
        self, platform: str = "", outbox: Outbox | None = None, observer: DeliveryObserver = NULL_OBSERVER
    ) -> None:
        self.observer = observer
        self._platform = platform
        self._outbox = outbox
        self._changed: dict[str, OutboxItem] = {}
        self._not_written: dict[str, OutboxItem] = {}
        """What the store did not take; it is given again with the next change, or when somebody thinks of it."""

    @property
    def has_news(self) -> bool:
        return bool(self._changed)

    def entry(self, outgoing: OutboxItem) -> OutboxHandle | None:
        return OutboxHandle(self, outgoing) if self._outbox else None

    def add(self, outgoing: OutboxItem) -> None:
        self._changed[outgoing.id] = outgoing

    def settled(self, outgoing: OutboxItem) -> None:
        """It has arrived, or never will. What was to pass anyway counts as neither."""
        if outgoing.kind != "transient":
            self.observer.delivered(self._platform, outgoing.progress.state)

    def try_again(self) -> bool:
        """Whether there is something that the store did not take."""
        self._changed = {**self._not_written, **self._changed}
        return self.has_news

    async def write(self) -> None:
        """People get to see their answer, also when nothing can be written."""
        if self._outbox is None or not self._changed:
            return
        news = {**self._not_written, **self._changed}
        self._not_written, self._changed = news, {}
        try:
            await self._outbox.save_progress(self._platform, *news.values())
        except StoreError as error:
            log.warning("chat.not_noted", platform=self._platform, error=type(error).__name__)
        else:
            self._not_written = {}


class OutboxHandle:
    """One of them: a text, a notice, a file, or a message that must not stay."""

    def __init__(self, ledger: OutboxTracker, outgoing: OutboxItem) -> None:
        self._ledger = ledger
        self.outgoing = outgoing

    def note(self, progress: DeliveryProgress) -> None:
        before = self.outgoing.progress
        if progress != before:
            self.outgoing = replace(self.outgoing, progress=progress)
            self._ledger.add(self.outgoing)
            if progress.state in ("sent", "parked") and progress.state != before.state:
                self._ledger.settled(self.outgoing)

    def close(self) -> None:
        """Nothing is left to be done about it."""
        self.note(DeliveryProgress("sent", self.outgoing.progress.shown_in))

    def forget(self) -> None:
        """As if it had never been on its way."""
        self.outgoing = replace(self.outgoing, kind="transient")
        self.close()

    def park(self, reason: str) -> None:
        if self.outgoing.kind == "transient":  # nobody misses it
            self.close()
        else:
            self.note(replace(self.outgoing.progress, state="parked", reason=reason))
