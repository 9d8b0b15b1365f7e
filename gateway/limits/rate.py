"""How often one person may write."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

_MINUTE = 60.0
_MAX_PEOPLE = 10_000
"""Whoever wrote longest ago is forgotten, and begins anew with a full bucket."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message that is not taken."""

    per_minute: int
    seconds: int
    """Until messages are taken again."""
    is_first: bool
    """The person has to be told. What follows until the time is over was announced with it."""

    def __str__(self) -> str:
        return (
            f"Too many messages: Hermes takes {self.per_minute} a minute from one person. This one was not taken; "
            f"try again in {self.seconds} s."
        )


@dataclass(slots=True)
class _Bucket:
    """One token for each message. `time` is the person's own: seconds since their first message, by our clock or, if
    that tells more, by the dates of what they wrote. So what was written over an hour and arrives at once, after an
    absence, was written over an hour."""

    tokens: float
    began_at: float
    """By our clock."""
    began_writing: float | None
    """By the dates of their messages."""
    time: float = 0.0
    ahead: float = 0.0
    """How much more time has passed for them than by our clock."""
    closed_until: float = 0.0

    def go_on(self, arrived_at: float, written_at: float | None, capacity: int) -> None:
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
    """A bucket of tokens for each person: as many messages at once as a minute allows, then as fast as it is refilled.

    Once it is empty nothing is taken for `pause` seconds. So one sentence covers everything that is refused: without a
    pause, one message in two would get through, and nobody could tell which.
    """

    def __init__(self, per_minute: int, *, pause: float = _MINUTE, clock: Callable[[], float]) -> None:
        self._per_minute = per_minute
        self._pause = pause
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    @property
    def remembered(self) -> int:
        """How many people are."""
        return len(self._buckets)

    def refusal(self, person: str, written_at: float | None = None) -> Refusal | None:
        """None if the message is taken, which is then counted. `written_at` is what the person's service says."""
        bucket = self._bucket(person, written_at)
        if bucket.time < bucket.closed_until:
            return self._refusal(bucket.closed_until - bucket.time, is_first=False)
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return None
        until_refilled = (1 - bucket.tokens) * _MINUTE / self._per_minute
        bucket.closed_until = bucket.time + self._pause
        return self._refusal(max(self._pause, until_refilled), is_first=True)

    def give_back(self, person: str) -> None:
        """The last message was not taken after all, through no fault of theirs."""
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
            bucket.go_on(now, written_at, self._per_minute)
        return bucket
