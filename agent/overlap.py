"""Joining a cut answer with its continuation when the continuation repeats the last words."""

from __future__ import annotations

TELLING = 12
"""Bytes of letters and digits that make a repetition one: fewer recur by chance, as indentation and rules do."""


class OverlapTrimmer:
    """Takes the continuation piece by piece and gives back what is new.

    Text is held back only as long as it could still turn out to be a repetition.
    """

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._held = ""
        self._decided = not shown

    def feed(self, text: str) -> str:
        if self._decided:
            return text
        self._held += text
        if self._held in self._shown:
            return ""
        return self.flush()

    def flush(self) -> str:
        """What is new in the text held back; nothing is held back after this."""
        held, self._held, self._decided = self._held, "", True
        return held[_overlap(self._shown, held) :]


def _overlap(shown: str, continuation: str) -> int:
    """How many characters at the end of `shown` the continuation begins with."""
    for length in range(min(len(shown), len(continuation)), 0, -1):
        if continuation.startswith(shown[-length:]):
            whole_answer_again = length == len(shown)
            return length if whole_answer_again or _is_telling(shown[-length:]) else 0
    return 0


def _is_telling(text: str) -> bool:
    return len("".join(filter(str.isalnum, text)).encode()) >= TELLING
