"""The day that money is counted in: from midnight to midnight, by the clock on the wall where Hermes runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Day:
    """In seconds since 1970."""

    begins: float
    ends: float

    @classmethod
    def of(cls, now: float) -> Day:
        """Local dates, so that a day at a change of the clocks has its 23 or 25 hours."""
        midnight = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
        return cls(midnight.timestamp(), (midnight + timedelta(days=1)).timestamp())


def duration(seconds: float) -> str:
    """`5 h 12 min`, never nothing at all."""
    hours, minutes = divmod(max(1, round(seconds / 60)), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
