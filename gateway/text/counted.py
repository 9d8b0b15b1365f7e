"""Numbers with their nouns."""

from __future__ import annotations


def counted(number: int, thing: str) -> str:
    """`1 message`, `2,000 messages`."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")
