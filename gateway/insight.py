"""The port to what an operator wants to know: questions over all conversations, answered by the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Spending:
    """What the calls of one model came to, for one person on one day."""

    day: str
    """In local time: `2026-11-17`."""
    person: str
    """Whose budget they counted against; empty where nobody asked."""
    model: str
    calls: int
    prompt_tokens: int
    """Those from the cache included."""
    completion_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    usd: float
    """Of the calls with a price."""
    unpriced_calls: int


class Insight(Protocol):
    async def spending(self, *, since: float) -> list[Spending]:
        """Oldest day first."""
        ...
