"""The one decision behind cutting a text: where its first message ends."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property

from gateway.text.fences import Fence
from gateway.text.outline import CodeBlock, Place, outline
from gateway.text.unbreakable import CutDamage
from gateway.text.unicode import UNSEEN, Measure, inside_graphemes, is_blank, longest_prefix

_SEEN = re.compile(f"[^{re.escape(UNSEEN)}]")
_SENTENCE_END = re.compile(r"""(?:(?<!\d)\.|[!?…])["'”’»)\]*_]*(?=[^\S\n])|[。！？]["”’」』）】]*""")
_IDEOGRAPH = r"[\u3040-\u30ff\u3400-\u9fff]"
_WORD_END = re.compile(rf"(?<=\S)(?=[^\S\n]+(?:\S|\Z))|(?<=[、，；：])|(?<={_IDEOGRAPH})(?={_IDEOGRAPH})")
_WITHIN_LINES = {Place.SENTENCE: _SENTENCE_END, Place.WORD: _WORD_END}

_ATTEMPTS = (
    (CutDamage.NONE, 1 / 2),
    (CutDamage.NONE, 1 / 4),
    (CutDamage.UGLY, 1 / 2),
    (CutDamage.NONE, 0),
    (CutDamage.UGLY, 0),
    (CutDamage.BROKEN, 0),
)
"""What a cut may spoil, and how full the message must be in return."""


@dataclass(frozen=True, slots=True)
class Cut:
    piece: str
    length: int
    """How much of the text the piece takes."""
    reopening: str
    """What to put in front of the rest, so that a code block goes on."""


def best_cut(text: str, limit: int, measure: Measure) -> Cut:
    """`text`: more than fits, at least by one character."""
    window = _Window(text, limit, measure)
    position = (
        window.best_place()
        or window.end_of_what_is_seen()
        or window.end_of_a_character()
        or window.any_place()
    )
    if position is None:
        # Not a character of this code block fits between its fences.
        return Cut(text[: window.room], window.room, "")
    code = window.code_at(position)
    bonds = window.bonds(code.fence) if code else _NO_BONDS
    return Cut(text[:position].rstrip() + bonds.closing, position, bonds.reopening)


@dataclass(frozen=True, slots=True)
class _Bonds:
    """What holds the two halves of a code block together."""

    closing: str
    reopening: str


_NO_BONDS = _Bonds("", "")


class _Window:
    """As much of a text as fits, and the one character more that any longer text has, too."""

    def __init__(self, text: str, limit: int, measure: Measure) -> None:
        self._limit = limit
        self._measure = measure
        self.room = longest_prefix(text, limit, measure)
        self._text = text[: self.room + 1]
        lines = outline(self._text)
        self._places = lines.places
        self._code = lines.code
        self._code_begins = [block.begin for block in lines.code]
        opens_with_code = bool(lines.code) and "\n" not in self._text[: lines.code[0].begin - 1]
        self._first_line = lines.code[0].begin if opens_with_code else 0
        """A fence that is opened, perhaps again, is not cut."""
        self._room_before: dict[str, int] = {"": self.room}
        self._harm = bytearray(len(self._text) + 1)
        for span in sorted(lines.spans, key=lambda span: span.harm):
            # Cutting at either end of a span does it no harm.
            self._harm[span.begin + 1 : span.end] = bytes([span.harm]) * (span.end - span.begin - 1)

    @cached_property
    def _inside_graphemes(self) -> set[int]:
        return inside_graphemes(self._text)

    def best_place(self) -> int | None:
        for harm, fullness in _ATTEMPTS:
            for place in Place:
                for position in reversed(self._positions(place)):
                    if position < self.room * fullness:
                        break
                    if self._harm[position] <= harm and self._is_whole(position):
                        return position
        return None

    def end_of_what_is_seen(self) -> int | None:
        """For a code block of which nothing else is known than that white space follows: the code may go on there."""
        block = self._code[-1] if self._code else None
        position = len(self._text.rstrip(UNSEEN))
        is_in_code = block is not None and block.begin < position <= block.end == len(self._text)
        return position if is_in_code and position <= self._room_for(self._closing_at(position)) else None

    def end_of_a_character(self) -> int | None:
        """Within a word, but if possible not within a link or a family of emoji."""
        for harm in CutDamage:
            position = self.room + 1
            while (position := self._harm.rfind(harm, 1, position)) > 0:
                if self._is_whole(position):
                    return position
        return None

    def any_place(self) -> int | None:
        return next((position for position in range(self.room, 0, -1) if self._is_possible(position)), None)

    def code_at(self, position: int) -> CodeBlock | None:
        """The code block that a cut here would part, the end of its opening line included."""
        block = self._code[bisect_right(self._code_begins, position + 1) - 1] if self._code else None
        return block if block and block.begin - 1 <= position <= block.end else None

    def bonds(self, fence: Fence) -> _Bonds:
        """None if they would leave little room for the code itself."""
        for opening_line in (fence.reopening_line, fence.closing_line):
            bonds = _Bonds("\n" + fence.closing_line, opening_line + "\n")
            if self._measure(bonds.closing + bonds.reopening) <= self._limit // 2:
                return bonds
        return _NO_BONDS

    def _closing_at(self, position: int) -> str:
        code = self.code_at(position)
        return self.bonds(code.fence).closing if code else ""

    def _positions(self, place: Place) -> list[int]:
        if place in _WITHIN_LINES and place not in self._places:
            self._places[place] = [found.end() for found in _WITHIN_LINES[place].finditer(self._text)]
        return self._places.get(place, [])

    def _is_whole(self, position: int) -> bool:
        return position not in self._inside_graphemes and self._is_possible(position)

    def _is_possible(self, position: int) -> bool:
        """Whether the message fits and has something to show. A code block must have so on both sides of the cut:
        one whose end comes next is not worth another message."""
        code = self.code_at(position)
        if code is None:
            return self._first_line <= position <= self.room and self._is_seen(0, position)
        return (
            position <= self._room_for(self.bonds(code.fence).closing)
            and self._is_seen(code.begin, position)
            and self._is_seen(position, code.end)
        )

    def _room_for(self, closing: str) -> int:
        if closing not in self._room_before:
            budget = self._limit - self._measure(closing)
            self._room_before[closing] = longest_prefix(self._text, budget, self._measure)
        return self._room_before[closing]

    def _is_seen(self, begin: int, end: int) -> bool:
        return _SEEN.search(self._text, begin, end) is not None


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
