"""A place in a chat service, and the pace that the service allows there now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from weakref import WeakSet, WeakValueDictionary

from gateway.chat.adapter import ChatPort
from gateway.types import Place


@dataclass(frozen=True, slots=True)
class Timing:
    first_text: float = 0.4
    """An answer that is whole by then is sent once, as it should look; of any other the beginning is shown."""
    gap: float = 1.0
    """Between the messages of one text, where the pace of edits does not ask for less."""
    slowest: float = 30.0
    """The longest pause between edits, however often a service asks to slow down."""

    typing_after: float = 0.2
    """Quicker answers need no sign."""
    typing_every: float = 4.5
    """Services show the sign for five seconds or more."""
    typing_cooldown: float = 30.0
    """After a sign that could not be given."""

    status_after: float = 1.0
    """Tools that are done sooner are not mentioned."""
    looked_away: float = 30.0
    """Whoever waits longer has put the phone away: the answer has to be a new message, or it makes no sound."""

    patience: float = 900.0
    """What should arrive is tried for so long."""
    endurance: float = 86_400.0
    """What is in the outbox must arrive: services and networks come back. But one message that a service can never take
    must not hold back the others for ever."""
    uploads: int = 4
    """Of one file, if each may have arrived."""
    first_backoff: float = 1.0
    longest_backoff: float = 16.0
    least_pause: float = 0.05
    """Even where a service asks for none."""

    telling: float = 120.0
    """What somebody waits for a sentence outside any turn to be told."""
    idle: float = 900.0
    """A conversation in which nothing happens is watched for so long."""
    closing: float = 5.0
    """What a shutdown waits for texts to be brought to their end."""


_SLOWER, _FASTER = 1.5, 0.95
_MOST_MOVES = 5
"""A chat moves once in its life; more is a service that contradicts itself."""


class RatePacer:
    """Shared by all places that share one limit of the service: the topics of a group, say."""

    def __init__(self, edit_seconds: float, timing: Timing) -> None:
        self.held_until = 0.0
        """No call before that."""
        self.growing: WeakSet[object] = WeakSet()
        """The texts that are being written there now."""
        self._usual = self._now = edit_seconds
        """Between two edits; more than usual for a while after the service complained."""
        self._timing = timing
        self._failures = 0

    @property
    def edit_seconds(self) -> float:
        """Between two edits of one text. Those that grow at the same time get equal shares."""
        return self._now * max(1, len(self.growing))

    @property
    def gap(self) -> float:
        """Before a text goes on in another message. Waiting as long as between edits would be felt."""
        return min(self.edit_seconds, self._timing.gap)

    @property
    def gap_before_finish(self) -> float:
        """One edit out of turn, to finish a message, is no burden, unless the service has complained lately."""
        return self.gap if self._now > self._usual else 0.0

    def slow_down(self, retry_after: float, now: float) -> None:
        self._hold(now + max(retry_after, self._timing.least_pause))
        self._now = max(self._now, min(self._now * _SLOWER, self._timing.slowest))

    def unreachable(self, now: float) -> None:
        backoff = self._timing.first_backoff * 2.0 ** min(self._failures, 16)
        self._hold(now + min(backoff, self._timing.longest_backoff))
        self._failures += 1

    def went_well(self) -> None:
        self._failures = 0
        self._now = max(self._now * _FASTER, self._usual)

    def _hold(self, until: float) -> None:
        self.held_until = max(self.held_until, until)


class ChatTarget:
    """Shared by everything that is shown in one place."""

    def __init__(self, port: ChatPort, place: Place, pace: RatePacer, timing: Timing) -> None:
        self.port = port
        self.place = place
        self.pace = pace
        self.timing = timing
        self._moves = 0

    def move(self, chat_id: str) -> bool:
        """Everything that was to be shown here is shown there. False if that leads nowhere."""
        self._moves += 1
        if self._moves > _MOST_MOVES:
            return False
        self.place = replace(self.place, chat_id=chat_id)
        return True


class ChatTargets:
    """The venue of each place where something is being shown."""

    def __init__(self, port: ChatPort, timing: Timing) -> None:
        self._port = port
        self._timing = timing
        self._venues: WeakValueDictionary[Place, ChatTarget] = WeakValueDictionary()
        self._paces: WeakValueDictionary[str, RatePacer] = WeakValueDictionary()

    def at(self, place: Place) -> ChatTarget:
        venue = self._venues.get(place)
        if venue is None:
            venue = self._venues[place] = ChatTarget(self._port, place, self._pace(place), self._timing)
        return venue

    def _pace(self, place: Place) -> RatePacer:
        key = self._port.pace_key(place)
        pace = self._paces.get(key)
        if pace is None:
            pace = self._paces[key] = RatePacer(self._port.edit_seconds(place), self._timing)
        return pace
