"""Time and ids in the loopback Discord: real time plus what a test adds, and snowflakes that carry it."""

from __future__ import annotations

import time
from datetime import UTC, datetime

EPOCH_MS = 1_420_070_400_000


class Clock:
    """Real time, which a test can move ahead: interaction tokens age and rate limits reset without waiting."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def now(self) -> float:
        return time.time() + self._ahead

    def advance(self, seconds: float) -> None:
        self._ahead += seconds


class Snowflakes:
    """Ids that grow with time, as the SDK computes `created_at` and "younger than 10 seconds" from them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = 0

    def next(self) -> int:
        born = int(self._clock.now() * 1000) - EPOCH_MS
        self._last = max(self._last + 1, born << 22)
        return self._last


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


def born(snowflake: int) -> float:
    """The second in which this id was made."""
    return ((snowflake >> 22) + EPOCH_MS) / 1000
