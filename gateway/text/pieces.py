"""Long Markdown cut into messages.

A text is cut at the best place that lets the message be reasonably full: between paragraphs rather than
between list items, between lines rather than within, and only at the last within a link or a word. A code
block that must be cut is closed at the end of the message and opened again in the next.

The cut is decided by the part of the text that fits and the one character after it. Nothing that comes later
changes it, so a message once sent stays right while the answer still grows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gateway.text.characters import UNSEEN, is_blank
from gateway.text.cut import best_cut
from gateway.text.measure import Measure

SMALLEST_LIMIT = 16

# White space around a cut is dropped, but not the indentation of a line.
_BLANK_LINES = re.compile(r"(?:\s*\n)?")
_WHITE_SPACE = re.compile(r"\s*\n|\s*")
_UNSEEN_RUN = re.compile(f"[{re.escape(UNSEEN)}]*")


def first_piece(text: str, limit: int, measure: Measure) -> tuple[str, str]:
    """The first message and the rest, which is empty or has something to show.

    The text may end anywhere. Once there is a rest, more text at the end changes neither the piece nor what the
    rest begins with; while there is none, nothing is decided.
    """
    source = _Source(text, limit, measure)
    if source.remainder_fits(0, ""):
        return source.remainder(0, ""), ""
    piece, position, reopening = source.cut(source.first_line(), "")
    return piece, reopening + text[position:]


def pieces(text: str, limit: int, measure: Measure) -> list[str]:
    """All the messages; none for a text with nothing to see.

    The same as repeated use of `first_piece`, without copying the rest each time.
    """
    source = _Source(text, limit, measure)
    found: list[str] = []
    position, reopening = 0, ""
    while not source.remainder_fits(position, reopening):
        piece, position, reopening = source.cut(position or source.first_line(), reopening)
        found.append(piece)
    last = source.remainder(position, reopening)
    return found if is_blank(last) else [*found, last]


@dataclass(slots=True)
class _Source:
    """A text and how long its messages may be."""

    text: str
    limit: int
    measure: Measure
    _end: int = field(init=False)
    """Where the last character stands that shows anything."""

    def __post_init__(self) -> None:
        if self.limit < SMALLEST_LIMIT:
            raise ValueError(
                f"A message limit of {self.limit} is too small; allow at least {SMALLEST_LIMIT}."
            )
        self._end = len(self.text.rstrip(UNSEEN))

    def first_line(self) -> int:
        """Where the first line begins that shows anything."""
        return self._past_unseen(_BLANK_LINES.match(self.text))

    def remainder_fits(self, position: int, reopening: str) -> bool:
        position = position or self.first_line()
        # Measured only when short: a character counts for at least one.
        return self._end - position <= self.limit and self._fits(reopening + self.text[position : self._end])

    def remainder(self, position: int, reopening: str) -> str:
        """As it is if it fits so; else without the unseen around it."""
        whole = reopening + self.text[position:]
        return (
            whole if self._fits(whole) else reopening + self.text[position or self.first_line() : self._end]
        )

    def cut(self, position: int, reopening: str) -> tuple[str, int, str]:
        """(the piece, where the next begins, what to put in front of it)."""
        cut = best_cut(reopening + self.text[position : position + self.limit + 1], self.limit, self.measure)
        end = position + cut.length - len(reopening)
        return cut.piece, self._past_unseen(_WHITE_SPACE.match(self.text, end)), cut.reopening

    def _past_unseen(self, dropped: re.Match[str] | None) -> int:
        """A message must not be spent on indentation alone."""
        assert dropped
        indentation = _UNSEEN_RUN.match(self.text, dropped.end())
        assert indentation
        is_long = indentation.end() - indentation.start() > self.limit // 2
        return indentation.end() if is_long else indentation.start()

    def _fits(self, text: str) -> bool:
        return len(text) <= self.limit and self.measure(text) <= self.limit
