"""A place, and the pace that the service allows there now."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakValueDictionary

from gateway.chat.contract import ChatPort, Place
from gateway.chat.showing.timing import Timing

_SLOWER, _FASTER = 1.5, 0.95
_MOST_MOVES = 5
"""A chat moves once in its life; more is a service that contradicts itself."""


class Venue:
    """Shared by everything that is shown in one place."""

    def __init__(self, place: Place, edit_seconds: float, timing: Timing) -> None:
        self.place = place
        self.edit_seconds = edit_seconds
        """Between two edits of one message: the usual pace, or more for a while after the service complained."""
        self.held_until = 0.0
        """No call before that."""
        self._usual = edit_seconds
        self._timing = timing
        self._failures = self._moves = 0

    @property
    def gap(self) -> float:
        """Before a call that finishes a text. Waiting as long as between edits would be felt."""
        return min(self.edit_seconds, self._timing.gap)

    def slow_down(self, retry_after: float, now: float) -> None:
        self._hold(now + max(retry_after, self._timing.least_pause))
        slower = min(self.edit_seconds * _SLOWER, self._timing.slowest)
        self.edit_seconds = max(slower, self.edit_seconds)

    def unreachable(self, now: float) -> None:
        backoff = self._timing.first_backoff * 2.0 ** min(self._failures, 16)
        self._hold(now + min(backoff, self._timing.longest_backoff))
        self._failures += 1

    def went_well(self) -> None:
        self._failures = 0
        self.edit_seconds = max(self.edit_seconds * _FASTER, self._usual)

    def move(self, chat_id: str) -> bool:
        """Everything that was to be shown here is shown there. False if that leads nowhere."""
        self._moves += 1
        if self._moves > _MOST_MOVES:
            return False
        self.place = replace(self.place, chat_id=chat_id)
        return True

    def _hold(self, until: float) -> None:
        self.held_until = max(self.held_until, until)


class Venues:
    """The venue of each place where something is being shown."""

    def __init__(self, port: ChatPort, timing: Timing) -> None:
        self._port = port
        self._timing = timing
        self._venues: WeakValueDictionary[Place, Venue] = WeakValueDictionary()

    def at(self, place: Place) -> Venue:
        venue = self._venues.get(place)
        if venue is None:
            venue = self._venues[place] = Venue(place, self._port.edit_seconds(place), self._timing)
        return venue
