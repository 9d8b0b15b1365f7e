"""How long a text is, in the units a platform counts: code points on Discord, UTF-16 units on Telegram."""

from __future__ import annotations

from collections.abc import Callable

Measure = Callable[[str], int]
"""Every character counts for at least one, and a text for as much as its characters together: `len` is one."""


def utf16_units(text: str) -> int:
    """Characters beyond the basic plane, most emoji among them, count for two."""
    if text.isascii():
        return len(text)
    # A broken answer may hold half a surrogate pair; it still has a length.
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def longest_prefix(text: str, budget: int, measure: Measure) -> int:
    """How many characters of the text fit into the budget."""
    if budget <= 0:
        return 0
    enough, too_many = 0, min(len(text), budget) + 1
    while too_many - enough > 1:
        middle = (enough + too_many) // 2
        if measure(text[:middle]) <= budget:
            enough = middle
        else:
            too_many = middle
    return enough
