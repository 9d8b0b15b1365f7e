"""What an earlier process left in a chat and nobody needs any more."""

from __future__ import annotations

from gateway.chat.errors import DeliveryError, Unreachable
from gateway.chat.showing.block import AT_ONCE, NEVER, Block
from gateway.chat.showing.calls import Call, Delete, Edit
from gateway.chat.showing.ledger import Entry
from gateway.chat.showing.venue import Venue


class Remains(Block):
    """Its messages are taken away, or say that it is over. Nothing waits for that."""

    def __init__(self, venue: Venue, entry: Entry) -> None:
        super().__init__(venue, entry)
        self._last_words = entry.outgoing.content or ""
        self._message_ids = list(entry.outgoing.progress.shown_in) if venue.port.can_edit else []
        self._not_before = AT_ONCE
        self._settle()

    @property
    def holds_back(self) -> bool:
        return False

    def due(self) -> float:
        return NEVER if self.over else self._not_before

    def call(self, now: float) -> Call:
        message_id = self._message_ids[0]
        return Edit(message_id, self._last_words, True) if self._last_words else Delete(message_id)

    def done(self, call: Call, message_id: str, now: float) -> None:
        self._failing_since = None
        del self._message_ids[0]
        self._settle()

    def failed(self, call: Call, error: DeliveryError, now: float) -> str:
        if isinstance(error, Unreachable) and not self._is_hopeless(now):
            # What is to be shown comes first, should only this fail.
            self._not_before = now + self.venue.timing.longest_backoff
        else:
            self.done(call, "", now)
        return ""

    def _settle(self) -> None:
        self.over = not self._message_ids
        if self.over and self.entry:
            self.entry.close()
