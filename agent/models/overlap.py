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
        self._at = 0
        """Where `shown` first has what is held; a longer text is never found earlier."""
        self._decided = not shown

    def feed(self, text: str) -> str:
        if self._decided:
            return text
        goes_on = self._shown.startswith(text, self._at + len(self._held))
        self._held += text
        if not goes_on:
            self._at = self._shown.find(self._held, self._at)
        return "" if self._at >= 0 else self.flush()

    def flush(self) -> str:
        """What is new in the text held back; nothing is held back after this."""
        held, self._held, self._decided = self._held, "", True
        return held[_overlap(self._shown, held) :]


def _overlap(shown: str, continuation: str) -> int:
    """How many characters at the end of `shown` the continuation begins with."""
    length = _longest_overlap(shown[-len(continuation) :], continuation) if continuation else 0
    whole_answer_again = length == len(shown)
    return length if whole_answer_again or _is_telling(shown[len(shown) - length :]) else 0


def _longest_overlap(text: str, pattern: str) -> int:
    """The longest end of the text that the pattern begins with, by Knuth, Morris and Pratt: in linear time."""
    borders = [0] * len(pattern)
    matched = 0
    for index in range(1, len(pattern)):
        while matched and pattern[index] != pattern[matched]:
            matched = borders[matched - 1]
        matched += pattern[index] == pattern[matched]
        borders[index] = matched
    matched = 0
    for character in text:
        while matched and (matched == len(pattern) or character != pattern[matched]):
            matched = borders[matched - 1]
        matched += character == pattern[matched]
    return matched


def _is_telling(text: str) -> bool:
    return len("".join(filter(str.isalnum, text)).encode()) >= TELLING
