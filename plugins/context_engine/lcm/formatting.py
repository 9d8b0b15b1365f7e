"""Times and counts as text."""

from __future__ import annotations

from datetime import UTC, datetime


def to_datetime(timestamp: float) -> datetime | None:
    """Return None for a number that is not a time."""
    try:
        return datetime.fromtimestamp(timestamp, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def format_time(timestamp: float) -> str:
    """Format to the minute."""
    moment = to_datetime(timestamp)
    return f"{moment:%Y-%m-%d %H:%M}" if moment else "0000-00-00 00:00"


def format_period(earliest: float, latest: float) -> str:
    first, last = format_time(earliest), format_time(latest)
    if first == last:
        return f"{first} UTC"
    return f"{first} - {last[11:] if first[:10] == last[:10] else last} UTC"


def pluralize(number: int, noun: str, plural: str = "") -> str:
    """`1 row`, `1,200 rows`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
