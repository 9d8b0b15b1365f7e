"""Splits Markdown into messages: chooses where each message ends."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from gateway.text.code_blocks import Fence
from gateway.text.outline import CodeRange, CutDamage, CutPoint, outline
from gateway.text.unicode import INVISIBLE, Measure, inside_graphemes, prefix_length

_VISIBLE = re.compile(f"[^{re.escape(INVISIBLE)}]")
_SENTENCE_END = re.compile(r"""(?:(?<!\d)\.|[!?…])["'”’»)\]*_]*(?=[^\S\n])|[。！？]["”’」』）】]*""")
_IDEOGRAPH = r"[\u3040-\u30ff\u3400-\u9fff]"
_WORD_END = re.compile(rf"(?<=\S)(?=[^\S\n]+(?:\S|\Z))|(?<=[、，；：])|(?<={_IDEOGRAPH})(?={_IDEOGRAPH})")
_WITHIN_LINES = {CutPoint.SENTENCE: _SENTENCE_END, CutPoint.WORD: _WORD_END}

_ATTEMPTS = (
    (CutDamage.NONE, 1 / 2),
    (CutDamage.NONE, 1 / 4),
    (CutDamage.UGLY, 1 / 2),
    (CutDamage.NONE, 0),
    (CutDamage.UGLY, 0),
    (CutDamage.BROKEN, 0),
)
"""Damage that a cut may do, and how full the message must be in return; tried in order."""


def _best_cut(text: str, limit: int, measure: Measure) -> tuple[str, int, str]:
    """Cut a text that is too long by at least one character.

    Return the message, the number of characters it uses, and the fence to put before the rest if the cut splits a code
    block."""
    window = _Window(text, limit, measure)
    position = (
        window.best_position()
        or window.end_of_visible_code()
        or window.end_of_grapheme()
        or window.any_position()
    )
    if position is None:
        # Not one character of this code block fits between its fences.
        return text[: window.room], window.room, ""
    code = window.code_at(position)
    closing, reopening = window.fences_at_cut(code.fence) if code else ("", "")
    return text[:position].rstrip() + closing, position, reopening


class _Window:
    """The part of a text that fits into one message, and one character more."""

    def __init__(self, text: str, limit: int, measure: Measure) -> None:
        self._limit = limit
        self._measure = measure
        self.room = prefix_length(text, limit, measure)
        self._text = text[: self.room + 1]
        lines = outline(self._text)
        self._cut_points = lines.cut_points
        self._code = lines.code
        self._code_begins = [block.begin for block in lines.code]
        opens_with_code = bool(lines.code) and "\n" not in self._text[: lines.code[0].begin - 1]
        self._first_line = lines.code[0].begin if opens_with_code else 0
        """Start of the code if the text opens with a fence: the fence itself is never cut."""
        self._room_before: dict[str, int] = {"": self.room}
        self._damage = bytearray(len(self._text) + 1)
        for span in sorted(lines.spans, key=lambda span: span.damage):
            # A cut at either end of a span does no damage.
            self._damage[span.begin + 1 : span.end] = bytes([span.damage]) * (span.end - span.begin - 1)

    @cached_property
    def _inside_graphemes(self) -> set[int]:
        return inside_graphemes(self._text)

    def best_position(self) -> int | None:
        for damage, fullness in _ATTEMPTS:
            for point in CutPoint:
                for position in reversed(self._positions(point)):
                    if position < self.room * fullness:
                        break
                    if self._damage[position] <= damage and self._is_whole(position):
                        return position
        return None

    def end_of_visible_code(self) -> int | None:
        """Return the end of the visible code if only white space follows it: more code may come after that."""
        block = self._code[-1] if self._code else None
        position = len(self._text.rstrip(INVISIBLE))
        is_in_code = block is not None and block.begin < position <= block.end == len(self._text)
        return position if is_in_code and position <= self._room_for(self._closing_at(position)) else None

    def end_of_grapheme(self) -> int | None:
        """Return a position within a word, if possible outside links, and never inside a grapheme."""
        for damage in CutDamage:
            position = self.room + 1
            while (position := self._damage.rfind(damage, 1, position)) > 0:
                if self._is_whole(position):
                    return position
        return None

    def any_position(self) -> int | None:
        return next((position for position in range(self.room, 0, -1) if self._is_possible(position)), None)

    def code_at(self, position: int) -> CodeRange | None:
        """Return the code block that a cut at this position splits; a cut after its opening line splits it, too."""
        block = self._code[bisect_right(self._code_begins, position + 1) - 1] if self._code else None
        return block if block and block.begin - 1 <= position <= block.end else None

    def fences_at_cut(self, fence: Fence) -> tuple[str, str]:
        """Return the fences that close and reopen a code block; empty if they leave less than half of the message for
        the code."""
        closing = "\n" + fence.closing_line
        for opening_line in (fence.reopening_line, fence.closing_line):
            reopening = opening_line + "\n"
            if self._measure(closing + reopening) <= self._limit // 2:
                return closing, reopening
        return "", ""

    def _closing_at(self, position: int) -> str:
        code = self.code_at(position)
        return self.fences_at_cut(code.fence)[0] if code else ""

    def _positions(self, point: CutPoint) -> list[int]:
        if point in _WITHIN_LINES and point not in self._cut_points:
            self._cut_points[point] = [found.end() for found in _WITHIN_LINES[point].finditer(self._text)]
        return self._cut_points.get(point, [])

    def _is_whole(self, position: int) -> bool:
        return position not in self._inside_graphemes and self._is_possible(position)

    def _is_possible(self, position: int) -> bool:
        """Return whether the message fits and shows something. If the cut splits a code block, both sides must show
        code: an empty rest of a code block needs no message."""
        code = self.code_at(position)
        if code is None:
            return self._first_line <= position <= self.room and self._is_visible(0, position)
        return (
            position <= self._room_for(self.fences_at_cut(code.fence)[0])
            and self._is_visible(code.begin, position)
            and self._is_visible(position, code.end)
        )

    def _room_for(self, closing: str) -> int:
        if closing not in self._room_before:
            budget = self._limit - self._measure(closing)
            self._room_before[closing] = prefix_length(self._text, budget, self._measure)
        return self._room_before[closing]

    def _is_visible(self, begin: int, end: int) -> bool:
        return _VISIBLE.search(self._text, begin, end) is not None


SMALLEST_LIMIT = 16

# White space around a cut is dropped, except the indentation of a line.
_BLANK_LINES = re.compile(r"(?:\s*\n)?")
_WHITE_SPACE = re.compile(r"\s*\n|\s*")
_INVISIBLE_RUN = re.compile(f"[{re.escape(INVISIBLE)}]*")


def split_first(text: str, limit: int, measure: Measure) -> tuple[str, str]:
    """Return the first message and the rest, which is empty or shows something.

    The text may be incomplete: once there is a rest, appending text changes neither the message nor the beginning of
    the rest.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"A message limit of {limit} is too small; allow at least {SMALLEST_LIMIT}.")
    begin = _skip_indentation(text, _BLANK_LINES.match(text), limit)
    end = len(text.rstrip(INVISIBLE))
    # A text of more characters than the limit need not be measured: a character counts at least 1.
    if end - begin <= limit and measure(text[begin:end]) <= limit:
        fits = len(text) <= limit and measure(text) <= limit
        return text if fits else text[begin:end], ""
    piece, length, reopening = _best_cut(text[begin : begin + limit + 1], limit, measure)
    position = _skip_indentation(text, _WHITE_SPACE.match(text, begin + length), limit)
    return piece, reopening + text[position:]


def _skip_indentation(text: str, dropped: re.Match[str] | None, limit: int) -> int:
    """Return the end of the dropped white space; skip indentation that fills more than half a message."""
    assert dropped
    indentation = _INVISIBLE_RUN.match(text, dropped.end())
    assert indentation
    is_long = indentation.end() - indentation.start() > limit // 2
    return indentation.end() if is_long else indentation.start()
