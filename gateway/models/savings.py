"""What the cache saved: the price of a call as it was, beside its price had nothing been cached."""

from __future__ import annotations

from dataclasses import dataclass

from agent.llm import Usage
from gateway.models.catalog import lookup


@dataclass(frozen=True, slots=True)
class Saved:
    """By the prices in the catalog."""

    usd: float = 0.0
    """Less than nothing where more was written to the cache than ever came back from it."""
    without: float = 0.0
    """What it would have cost without the cache."""
    unknown_tokens: int = 0
    """Read from the cache at a price that nobody knows."""

    def __add__(self, other: Saved) -> Saved:
        return Saved(
            self.usd + other.usd, self.without + other.without, self.unknown_tokens + other.unknown_tokens
        )

    @property
    def share(self) -> float | None:
        return self.usd / self.without if self.without > 0 else None


def saved_by_cache(model: str, usage: Usage) -> Saved:
    """Of all the calls that these tokens are the sum of. The first look-up reads a file."""
    facts = lookup(model)
    prices = facts.prices if facts else None
    if prices is None or (prices.cache_read is None and usage.cache_read_tokens and prices.input):
        return Saved(unknown_tokens=usage.cache_read_tokens)
    read = prices.input if prices.cache_read is None else prices.cache_read
    written = prices.input if prices.cache_write is None else prices.cache_write
    return Saved(
        usage.cache_read_tokens * (prices.input - read) - usage.cache_write_tokens * (written - prices.input),
        usage.prompt_tokens * prices.input + usage.completion_tokens * prices.output,
    )
