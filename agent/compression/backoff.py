"""Waiting longer after each failure, and forgetting failures after a success."""

from __future__ import annotations

from collections.abc import Callable

_FIRST_WAIT = 60.0
_LONGEST_WAIT = 3_600.0
_DOUBLINGS = 10
"""More would only lead to numbers that nobody can wait for."""


class Backoff:
    """One minute after the first strike, twice as long after each further one, at most an hour."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.strikes = 0
        self._until: float | None = None

    def strike(self) -> None:
        self._until = self._clock() + min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(self.strikes, _DOUBLINGS))
        self.strikes += 1

    def clear(self) -> None:
        self.strikes = 0
        self._until = None

    @property
    def is_waiting(self) -> bool:
        return self._until is not None and self._clock() < self._until
