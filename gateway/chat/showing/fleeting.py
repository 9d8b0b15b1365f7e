"""A small silent message that says how things stand, and disappears."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from gateway.chat.contract import Place
from gateway.chat.errors import DeliveryError, MessageGone, Unreachable
from gateway.chat.showing.block import AT_ONCE, NEVER, Block
from gateway.chat.showing.calls import Call, Delete, Edit, Send
from gateway.chat.showing.ledger import Entry
from gateway.chat.showing.venue import Venue
from gateway.outbox import Progress

EntryAt = Callable[[Place], Entry | None]


class Fleeting(Block):
    """One message at most. A courtesy: whatever goes wrong with it is left at that. Only that it is there is entered,
    so that it goes also after a crash."""

    def __init__(self, venue: Venue, new_entry: EntryAt) -> None:
        super().__init__(venue)
        self._new_entry = new_entry
        self._can_change = venue.port.can_edit
        self._wanted = ""
        self._not_before = AT_ONCE
        self._reply_to = ""
        self._forget_message()
        self._muted = False

    @property
    def holds_back(self) -> bool:
        return False

    @property
    def is_visible(self) -> bool:
        return bool(self._message_id)

    def vanish(self) -> None:
        self._wanted = ""
        self._muted = False

    def move(self, venue: Venue) -> None:
        """For the next message; one that is there stays where it is."""
        if not self._message_id:
            self.venue = venue

    def reset(self) -> None:
        """As if nothing had been shown."""
        self.vanish()
        self._forget_message()

    def due(self) -> float:
        if self._message_id:
            if self._wanted == self._shown or not self._can_change:
                return NEVER
            if not self._wanted:
                return AT_ONCE
            return NEVER if self._muted else self._last_call + self.venue.pace.edit_seconds
        return self._not_before if self._wanted and not self._muted else NEVER

    def call(self, now: float) -> Call:
        if not self._wanted:
            return Delete(self._message_id)
        if self._message_id:
            return Edit(self._message_id, self._wanted)
        return Send(self._wanted, reply_to=self._reply_to, silent=True)

    def done(self, call: Call, message_id: str, now: float) -> None:
        self._last_call = now
        self._failing_since = None
        match call:
            case Delete():
                self._forget_message()
            case Edit():
                self._shown = call.text
            case Send():
                self._message_id, self._shown, self._sent_at = message_id, call.text, now
                self.entry = self._new_entry(self.venue.place) if self._can_change else None
                if self.entry:
                    self.entry.note(Progress(shown_in=(message_id,), growing=True))

    def failed(self, call: Call, error: DeliveryError, now: float) -> str:
        if isinstance(call, Delete):
            if not isinstance(error, Unreachable) or self._is_hopeless(now):
                self._forget_message()
            return ""
        self._muted = True
        if isinstance(error, MessageGone):
            self._forget_message()
        return ""

    def _forget_message(self) -> None:
        if self.entry:
            self.entry.close()
            self.entry = None
        self._failing_since = None
        self._message_id = self._shown = ""
        self._sent_at = self._last_call = -inf
