"""How late the event loop is: whatever blocks it makes everybody wait."""

from __future__ import annotations

import asyncio
from collections import deque

from prometheus_client import Histogram

_EVERY = 0.5
_REMEMBERED = 120
"""Measurements: the last minute."""


class EventLoopLag:
    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram
        self._recent: deque[float] = deque(maxlen=_REMEMBERED)

    @property
    def last(self) -> float:
        return self._recent[-1] if self._recent else 0.0

    @property
    def worst(self) -> float:
        """In the last minute."""
        return max(self._recent, default=0.0)

    async def measure(self) -> None:
        """Until it is cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + _EVERY
            await asyncio.sleep(_EVERY)
            late = max(0.0, clock() - due)
            self._recent.append(late)
            self._histogram.observe(late)
