"""The blocks of a text as its lines tell them: where it may be cut, and how good each place is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import pairwise

from gateway.text.fences import Fence, opened_by
from gateway.text.unbreakable import CutDamage, Span, spans


class Place(Enum):
    """Kinds of places to cut at, the best first."""

    PARAGRAPH = auto()
    ITEM = auto()
    LINE = auto()
    GAP_IN_CODE = auto()
    LINE_IN_BLOCK = auto()
    """After a line of code or a table row."""
    SENTENCE = auto()
    WORD = auto()


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """The code between two fences; the end is the end of the text when it is not closed there."""

    begin: int
    end: int
    fence: Fence


@dataclass(slots=True)
class Outline:
    places: dict[Place, list[int]]
    """Ends of lines, in order. Those within lines are left out: they are needed only when these do not do."""
    code: list[CodeBlock]
    spans: list[Span]


class _Kind(Enum):
    BLANK = auto()
    TEXT = auto()
    HEADING = auto()
    ITEM = auto()
    ROW = auto()
    ROW_OF_DASHES = auto()
    OPENING = auto()
    CODE = auto()
    CLOSING = auto()


@dataclass(slots=True)
class _Line:
    begin: int
    end: int
    kind: _Kind
    is_indented: bool


_ROWS = (_Kind.ROW, _Kind.ROW_OF_DASHES)
_HEADING = re.compile(r"#{1,6}\s")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])\s")
_ROW_OF_DASHES = re.compile(r"\|?\s*:?-+:?\s*\|(?:\s*:?-+:?\s*\|)*(?:\s*:?-+:?\s*)?")


def outline(text: str) -> Outline:
    """`text` is the beginning of something longer: its last line is not whole."""
    reader = _Reader(text)
    reader.read()
    found = [*_line_spans(reader.lines), *_title_spans(reader.lines), *reader.inline_spans()]
    return Outline(_places(reader.lines), reader.code, found)


@dataclass(slots=True)
class _Reader:
    """Tells the kinds of lines, keeping in mind the code block or table they stand in."""

    text: str
    lines: list[_Line] = field(default_factory=list)
    code: list[CodeBlock] = field(default_factory=list)
    _prose: list[tuple[int, int]] = field(default_factory=list)
    _fence: Fence | None = None
    _code_begin: int = 0
    _prose_begin: int = 0
    _in_table: bool = False

    def read(self) -> None:
        begin = 0
        for line in self.text.split("\n"):
            end = begin + len(line)
            self.lines.append(_Line(begin, end, self._kind(line, begin, end), line[:1] in (" ", "\t")))
            begin = end + 1
        if self._fence:
            self._end_open_code(self.lines[-1], self._fence)
        else:
            self._prose.append((self._prose_begin, len(self.text)))

    def _end_open_code(self, last: _Line, fence: Fence) -> None:
        may_become_the_closing_fence = not self.text[last.begin :].strip().strip(fence.ticks[0])
        if may_become_the_closing_fence:
            last.kind = _Kind.BLANK
        self._end_code(last.begin if may_become_the_closing_fence else last.end, last.end)

    def _kind(self, line: str, begin: int, end: int) -> _Kind:
        if self._fence and self._fence.is_left_by(line):
            self._end_code(begin, begin)
        if self._fence:
            if not self._fence.is_closed_by(line):
                return _Kind.CODE if line.strip() else _Kind.BLANK
            self._end_code(begin, end)
            return _Kind.CLOSING
        self._fence = opened_by(line) if "```" in line or "~~~" in line else None
        if self._fence:
            self._prose.append((self._prose_begin, begin))
            self._code_begin = end + 1
            self._in_table = False
            return _Kind.OPENING
        return self._kind_of_prose(line.strip())

    def _end_code(self, code_end: int, prose_begin: int) -> None:
        assert self._fence
        self.code.append(CodeBlock(self._code_begin, code_end, self._fence))
        self._fence = None
        self._prose_begin = prose_begin

    def _kind_of_prose(self, line: str) -> _Kind:
        if not line:
            self._in_table = False
            return _Kind.BLANK
        if "|" not in line:
            self._in_table = False
        elif _ROW_OF_DASHES.fullmatch(line):
            self._in_table = True
            return _Kind.ROW_OF_DASHES
        if self._in_table or line[0] == "|":
            return _Kind.ROW
        if _HEADING.match(line):
            return _Kind.HEADING
        return _Kind.ITEM if _ITEM.match(line) else _Kind.TEXT

    def inline_spans(self) -> list[Span]:
        return [
            Span(begin + span.begin, begin + span.end, span.harm)
            for begin, end in self._prose
            for span in spans(self.text[begin:end], goes_on=end == len(self.text))
        ]


def _line_spans(lines: list[_Line]) -> list[Span]:
    harm = {
        _Kind.OPENING: CutDamage.BROKEN,
        _Kind.CLOSING: CutDamage.BROKEN,
        _Kind.ROW: CutDamage.BROKEN,
        _Kind.ROW_OF_DASHES: CutDamage.BROKEN,
        _Kind.CODE: CutDamage.UGLY,
    }
    return [Span(line.begin, line.end, harm[line.kind]) for line in lines if line.kind in harm]


def _title_spans(lines: list[_Line]) -> list[Span]:
    """A heading or a table's head belongs into one message with what it announces."""
    found = []
    seen = [line for line in lines if line.kind is not _Kind.BLANK]
    for line, following in pairwise([*seen, lines[-1]]):
        if line.kind in (_Kind.HEADING, _Kind.ROW_OF_DASHES) or following.kind is _Kind.ROW_OF_DASHES:
            found.append(Span(line.begin, following.begin + 1, CutDamage.UGLY))
    return found


def _places(lines: list[_Line]) -> dict[Place, list[int]]:
    """Read from the end, so that each line knows what comes after the blank lines that follow it."""
    places: dict[Place, list[int]] = {}
    # The last line is not whole: it has no place, and while nothing of it is seen it may become anything.
    following = lines[-1] if lines[-1].kind is not _Kind.BLANK else None
    gap = False
    for line in reversed(lines[:-1]):
        if line.kind is _Kind.BLANK:
            gap = True
            continue
        place = _place(line, following, gap=gap)
        if place:
            places.setdefault(place, []).append(line.end)
        following, gap = line, False
    for ends in places.values():
        ends.reverse()
    return places


def _place(line: _Line, following: _Line | None, *, gap: bool) -> Place | None:
    after = following.kind if following else None
    if line.kind is _Kind.OPENING:
        return None
    if line.kind is _Kind.CODE:
        return Place.GAP_IN_CODE if gap else Place.LINE_IN_BLOCK
    if line.kind in _ROWS and after in _ROWS and not gap:
        return Place.LINE_IN_BLOCK
    if gap or line.kind is _Kind.CLOSING or after is _Kind.HEADING:
        return Place.ITEM if following and following.is_indented else Place.PARAGRAPH
    if after is _Kind.ITEM and following and not following.is_indented:
        return Place.ITEM
    return Place.LINE
