"""What was copied when hermes-agent compressed, told from what was said again.

A compression leaves a summary, before it copies of the first messages and behind it copies of the newest: in a child
session, or below the originals in the same one. Copies keep their order, and the first row behind them that continues
none of the originals is new. So whoever says `yes` once more is heard once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

Key = tuple[str, ...]
"""What a row says. Of a call and its result the ids: their texts may have been shortened in the copy."""

_MOST_AT_THE_HEAD = 8
_LOOKED_AHEAD = 16
"""Rows."""


class Copies:
    """Goes through a session's rows with `original_of`, once for each row in order."""

    def __init__(self, before: Sequence[tuple[Key, str]], keys: Sequence[Key | None]) -> None:
        """`before` is what its ancestors said, with the ids it has here. In `keys`, None stands for a summary."""
        self.said = list(before)
        self._keys = keys
        self._heads = _heads([key for key, _ in before[:_MOST_AT_THE_HEAD]], keys)
        self._copying = bool(before)
        self._reached = 0

    def summary(self) -> None:
        """Copies may follow."""
        self._copying = True
        self._reached = 0

    def original_of(self, number: int, key: Key) -> str | None:
        """The id of what the row repeats; None where it is new."""
        if number in self._heads or self._copying:
            found = self._find(number, key, 0 if number in self._heads else self._reached)
            if found is not None:
                self._reached = found + 1
                return self.said[found][1]
        self._copying = False
        return None

    def note(self, key: Key, message_id: str) -> None:
        """It is new."""
        self.said.append((key, message_id))

    def _find(self, number: int, key: Key, start: int) -> int | None:
        """Where several rows say the same, as calls do that are numbered from zero in every turn, the one that is
        followed by what follows here; the first of equals."""
        places = (at for at in range(start, len(self.said)) if self.said[at][0] == key)
        return max(places, key=lambda at: self._run(number, at), default=None)

    def _run(self, number: int, at: int) -> int:
        """How many rows from here on continue alike."""
        rows = self._keys[number : number + _LOOKED_AHEAD]
        pairs = zip(rows, self.said[at : at + _LOOKED_AHEAD], strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1][0], pairs))


def _heads(first: Sequence[Key], keys: Sequence[Key | None]) -> set[int]:
    """The rows just before a summary that repeat how it all began."""
    first = first or [key for key in keys[:_MOST_AT_THE_HEAD] if key is not None]
    found: set[int] = set()
    for at in (at for at, key in enumerate(keys) if key is None):
        for count in range(min(len(first), at // 2), 0, -1):
            if list(keys[at - count : at]) == list(first[:count]):
                found.update(range(at - count, at))
                break
    return found
