"""Rate limit for messages, per person."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

_MINUTE = 60.0
_MAX_PEOPLE = 10_000
"""The least recent writer is evicted and restarts with a full bucket."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message rejected by the rate limit."""

    per_minute: int
    seconds: int
    """Seconds until messages are accepted again."""
    is_first: bool
    """Whether the person gets a notice. Later refusals of the same pause are silent."""

    def __str__(self) -> str:
        return (
            f"Too many messages: Hermes accepts {self.per_minute} a minute from one person. This one was not accepted; "
            f"try again in {self.seconds} s."
        )


@dataclass(slots=True)
class _Bucket:
    """Token bucket of one person, one token per message. `time` is the person's clock: seconds since the first message,
    by our clock or, if that is later, by the dates of the messages. Messages written over an hour that arrive together
    after an outage therefore count as written over an hour."""

    tokens: float
    began_at: float
    """Start by our clock."""
    began_writing: float | None
    """Start by the dates of the messages."""
    time: float = 0.0
    ahead: float = 0.0
    """Seconds by which the person's clock is ahead of ours."""
    closed_until: float = 0.0

    def advance(self, arrived_at: float, written_at: float | None, capacity: int) -> None:
        now = arrived_at - self.began_at + self.ahead
        if written_at is not None:
            if self.began_writing is None:
                self.began_writing = written_at - now
            more = max(0.0, written_at - self.began_writing - now)
            self.ahead += more
            now += more
        self.tokens = min(capacity, self.tokens + (now - self.time) * capacity / _MINUTE)
        self.time = now


class RateLimit:
    """Token bucket per person: a burst of one minute's messages, then the refill rate.

    When the bucket is empty, messages are rejected for `pause` seconds, so that one notice covers all of them. Without
    the pause, every second message would pass, and the person could not tell which.
    """

    def __init__(self, per_minute: int, *, pause: float = _MINUTE, clock: Callable[[], float]) -> None:
        self._per_minute = per_minute
        self._pause = pause
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    @property
    def remembered(self) -> int:
        """Number of people with a bucket."""
        return len(self._buckets)

    def refusal(self, person: str, written_at: float | None = None) -> Refusal | None:
        """Count the message and return None, or return a Refusal. `written_at` is the date by the chat service."""
        bucket = self._bucket(person, written_at)
        if bucket.time < bucket.closed_until:
            return self._refusal(bucket.closed_until - bucket.time, is_first=False)
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return None
        until_refilled = (1 - bucket.tokens) * _MINUTE / self._per_minute
        bucket.closed_until = bucket.time + self._pause
        return self._refusal(max(self._pause, until_refilled), is_first=True)

    def refund(self, person: str) -> None:
        """Return the token of the last message, which was not stored."""
        if bucket := self._buckets.get(person):
            bucket.tokens = min(self._per_minute, bucket.tokens + 1)

    def _refusal(self, seconds: float, *, is_first: bool) -> Refusal:
        return Refusal(self._per_minute, max(1, ceil(seconds)), is_first)

    def _bucket(self, person: str, written_at: float | None) -> _Bucket:
        now = self._clock()
        bucket = self._buckets.get(person)
        if bucket is None:
            bucket = self._buckets[person] = _Bucket(self._per_minute, now, written_at)
            if len(self._buckets) > _MAX_PEOPLE:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(person)
            bucket.advance(now, written_at, self._per_minute)
        return bucket
