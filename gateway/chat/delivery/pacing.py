"""Chat targets, the rate at which messages may be sent there, and all durations of delivery."""

from __future__ import annotations

from dataclasses import dataclass, replace
from weakref import WeakSet, WeakValueDictionary

from gateway.chat.adapter import ChatPort
from gateway.types import Place


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations in seconds."""

    first_text: float = 0.4
    """Before the beginning of an answer is shown. An answer that is complete by then is sent once, formatted."""
    message_gap: float = 1.0
    """Between the messages of one text, unless the edit interval is shorter."""
    max_edit_interval: float = 30.0
    """Between edits, however often a service asks to slow down."""

    typing_after: float = 0.2
    """Before the typing indicator appears; quicker answers need none."""
    typing_every: float = 4.5
    """Between typing calls; services show the indicator for five seconds or more."""
    typing_cooldown: float = 30.0
    """After a typing call that failed."""

    status_after: float = 1.0
    """Before a running tool is shown."""
    notify_after: float = 30.0
    """After this time the answer is a new message, which notifies; an edit of the status message would not."""

    best_effort_timeout: float = 900.0
    """For items that are not in the outbox."""
    durable_timeout: float = 86_400.0
    """For items in the outbox: services and networks recover, but one message that a service can never accept must not
    block the others permanently."""
    max_uploads: int = 4
    """Attempts for one file, if each may have arrived."""
    first_backoff: float = 1.0
    max_backoff: float = 16.0
    min_pause: float = 0.05
    """After a rate limit, even if the service asks for no pause."""

    notice_timeout: float = 120.0
    """For a notice outside a turn."""
    idle_timeout: float = 900.0
    """After which a conversation without events is no longer watched."""
    close_timeout: float = 5.0
    """For unfinished messages at shutdown."""


_SLOWER, _FASTER = 1.5, 0.95
_MAX_MOVES = 5
"""A chat moves once; more moves mean that the service contradicts itself."""


class RatePacer:
    """The send rate of all places that share one limit of the service, such as the topics of a group."""

    def __init__(self, edit_interval: float, timing: Timing) -> None:
        self.blocked_until = 0.0
        """No call may start earlier."""
        self.streaming: WeakSet[object] = WeakSet()
        """The texts that are growing now."""
        self._base_interval = self._interval = edit_interval
        """Between two edits; longer than the base for a while after a rate limit."""
        self._timing = timing
        self._failures = 0

    @property
    def edit_interval(self) -> float:
        """Seconds between two edits of one text. Texts that grow at the same time share the rate equally."""
        return self._interval * max(1, len(self.streaming))

    @property
    def message_gap(self) -> float:
        """Seconds before a text continues in another message; shorter than between edits, because people notice it."""
        return min(self.edit_interval, self._timing.message_gap)

    @property
    def gap_before_finish(self) -> float:
        """Seconds before the last edit of a message: none, unless the service has asked to slow down lately."""
        return self.message_gap if self._interval > self._base_interval else 0.0

    def slow_down(self, retry_after: float, now: float) -> None:
        self._block(now + max(retry_after, self._timing.min_pause))
        self._interval = max(self._interval, min(self._interval * _SLOWER, self._timing.max_edit_interval))

    def record_failure(self, now: float) -> None:
        """Back off exponentially."""
        backoff = self._timing.first_backoff * 2.0 ** min(self._failures, 16)
        self._block(now + min(backoff, self._timing.max_backoff))
        self._failures += 1

    def record_success(self) -> None:
        self._failures = 0
        self._interval = max(self._interval * _FASTER, self._base_interval)

    def _block(self, until: float) -> None:
        self.blocked_until = max(self.blocked_until, until)


class ChatTarget:
    """A place in a chat service, shared by all items that are delivered there."""

    def __init__(self, port: ChatPort, place: Place, pacer: RatePacer, timing: Timing) -> None:
        self.port = port
        self.place = place
        self.pacer = pacer
        self.timing = timing
        self._moves = 0

    def move(self, chat_id: str) -> bool:
        """Redirect everything to another chat id. Return False after too many moves."""
        self._moves += 1
        if self._moves > _MAX_MOVES:
            return False
        self.place = replace(self.place, chat_id=chat_id)
        return True


class ChatTargets:
    """Cache of the chat targets in use."""

    def __init__(self, port: ChatPort, timing: Timing) -> None:
        self._port = port
        self._timing = timing
        self._targets: WeakValueDictionary[Place, ChatTarget] = WeakValueDictionary()
        self._pacers: WeakValueDictionary[str, RatePacer] = WeakValueDictionary()

    def get(self, place: Place) -> ChatTarget:
        target = self._targets.get(place)
        if target is None:
            key = self._port.pace_key(place)
            pacer = self._pacers.get(key) or RatePacer(self._port.edit_seconds(place), self._timing)
            self._pacers[key] = pacer
            target = self._targets[place] = ChatTarget(self._port, place, pacer, self._timing)
        return target
