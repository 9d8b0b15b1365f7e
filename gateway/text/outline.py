"""Finds spans of Markdown that a cut would damage: links, URLs, inline code, emphasis."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto
from itertools import pairwise

from gateway.text.code_blocks import Fence, opening_fence


class CutDamage(IntEnum):
    """Damage that a cut does to a span; higher is worse."""

    NONE = 0
    UGLY = 1
    """Readable: emphasis shows its asterisks, a line of code is wrapped."""
    BROKEN = 2
    """Useless: half a link, half a table row."""


@dataclass(frozen=True, slots=True)
class UnbreakableSpan:
    begin: int
    end: int
    damage: CutDamage


_BLOCK_START = r"\n(?=[ \t\r]*(?:\n|[-*+][ \t]|\d{1,9}[.)][ \t]|\#|>|\|))"
_BACKTICKS = re.compile(rf"`+|{_BLOCK_START}")
# Chinese and Japanese text may follow a URL without a space.
_URL = re.compile(r"<?\b(?:https?|tg|mailto|ftp):[^\s<>\u3000-\u9fff\uff00-\uffef]+>?")
# The target of a link; it may be cut off by the end of the text.
_TARGET = re.compile(
    r"""\Z|\((?:[^()\s\\]|\\.|\([^()\s]*(?:\)|\Z))*"""
    r"""(?:[ \t]+(?:"[^"\n]*(?:"|\Z)|'[^'\n]*(?:'|\Z)))?[ \t]*(?:\)|\Z)"""
)
_MARK = re.compile(rf"(?P<block>{_BLOCK_START})|\\.|(?P<open>!?\[)|(?P<close>\])|(?P<run>\*+|_+|~~+|\|\|)")

_MASK = "\ufffc"


def find_spans(text: str, *, is_partial: bool) -> Iterator[UnbreakableSpan]:
    """Yield the unbreakable spans of a text without code blocks. In a partial text, an open span extends to the end."""
    code, unfinished = _inline_code(text, is_partial=is_partial)
    yield from (UnbreakableSpan(begin, end, CutDamage.BROKEN) for begin, end in code)
    if unfinished is not None:
        yield UnbreakableSpan(unfinished, len(text), CutDamage.UGLY)
    text = _mask_code(text, code)
    for url in _URL.finditer(text):
        yield UnbreakableSpan(url.start(), url.end(), CutDamage.BROKEN)
    yield from _MarkScanner(text).find_spans(is_partial=is_partial)


def _mask_code(text: str, code: list[tuple[int, int]]) -> str:
    """Replace inline code, in which no mark has a meaning."""
    parts = []
    position = 0
    for begin, end in code:
        parts += [text[position:begin], _MASK * (end - begin)]
        position = end
    return "".join([*parts, text[position:]])


def _inline_code(text: str, *, is_partial: bool) -> tuple[list[tuple[int, int]], int | None]:
    """Return the closed spans of inline code, and the start of an unclosed one if the text is partial."""
    runs = [(found.start(), found.end()) for found in _BACKTICKS.finditer(text)]
    partners = _partners(text, runs)
    finished = []
    unfinished = None
    index = 0
    while index < len(runs):
        begin, _ = runs[index]
        if text[begin] == "\n":
            unfinished = None
        elif index in partners:
            index = partners[index]
            finished.append((begin, runs[index][1]))
        elif unfinished is None:
            unfinished = begin
        index += 1
    return finished, unfinished if is_partial else None


def _partners(text: str, runs: list[tuple[int, int]]) -> dict[int, int]:
    """Pair each run of backticks with the next run of the same length in the same block."""
    partners: dict[int, int] = {}
    later: dict[int, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        begin, end = runs[index]
        if text[begin] == "\n":
            later.clear()
        else:
            if end - begin in later:
                partners[index] = later[end - begin]
            later[end - begin] = index
    return partners


@dataclass(slots=True)
class _MarkScanner:
    """Scans brackets and emphasis from left to right; a new block closes everything."""

    text: str
    _brackets: list[int] = field(default_factory=list)
    _emphasis: dict[str, int] = field(default_factory=dict)

    def find_spans(self, *, is_partial: bool) -> Iterator[UnbreakableSpan]:
        position = 0
        while found := _MARK.search(self.text, position):
            position = found.end()
            if found["block"]:
                self._brackets.clear()
                self._emphasis.clear()
            elif found["open"]:
                self._brackets.append(found.start())
            elif found["close"] and self._brackets:
                begin = self._brackets.pop()
                if target := _TARGET.match(self.text, position):
                    position = target.end()
                    yield UnbreakableSpan(begin, position, CutDamage.BROKEN)
            elif found["run"]:
                yield from self._scan_emphasis(found)
        if is_partial:
            unfinished = [*self._brackets[:1], *self._emphasis.values()]
            yield from (UnbreakableSpan(begin, len(self.text), CutDamage.UGLY) for begin in unfinished)

    def _scan_emphasis(self, run: re.Match[str]) -> Iterator[UnbreakableSpan]:
        before = self.text[run.start() - 1 : run.start()]
        after = self.text[run.end() : run.end() + 1]
        if before.strip() and run[0] in self._emphasis:
            yield UnbreakableSpan(self._emphasis.pop(run[0]), run.end(), CutDamage.UGLY)
        elif after.strip() and not (run[0][0] == "_" and before.isalnum()):
            self._emphasis.setdefault(run[0], run.start())


class CutPoint(Enum):
    """Kinds of positions to cut at, the best first."""

    PARAGRAPH = auto()
    ITEM = auto()
    LINE = auto()
    BLANK_LINE_IN_CODE = auto()
    LINE_IN_BLOCK = auto()
    """After a line of code or a row of a table."""
    SENTENCE = auto()
    WORD = auto()


@dataclass(frozen=True, slots=True)
class CodeRange:
    """The code between two fences; an unclosed block extends to the end of the text."""

    begin: int
    end: int
    fence: Fence


@dataclass(slots=True)
class Outline:
    cut_points: dict[CutPoint, list[int]]
    """Ends of lines, in order. Sentences and words are not listed; the splitter finds them if it needs them."""
    code: list[CodeRange]
    spans: list[UnbreakableSpan]


class _LineKind(Enum):
    BLANK = auto()
    TEXT = auto()
    HEADING = auto()
    ITEM = auto()
    ROW = auto()
    DELIMITER_ROW = auto()
    OPENING_FENCE = auto()
    CODE = auto()
    CLOSING_FENCE = auto()


@dataclass(slots=True)
class _Line:
    begin: int
    end: int
    kind: _LineKind
    is_indented: bool


_ROWS = (_LineKind.ROW, _LineKind.DELIMITER_ROW)
_HEADING = re.compile(r"#{1,6}\s")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])\s")
_DELIMITER_ROW = re.compile(r"\|?\s*:?-+:?\s*\|(?:\s*:?-+:?\s*\|)*(?:\s*:?-+:?\s*)?")


def outline(text: str) -> Outline:
    """Outline the beginning of a longer text: its last line may be incomplete."""
    parser = _LineParser(text)
    parser.parse()
    spans = [*_line_spans(parser.lines), *_title_spans(parser.lines), *parser.inline_spans()]
    return Outline(_cut_points(parser.lines), parser.code, spans)


@dataclass(slots=True)
class _LineParser:
    """Determines the kind of each line from the code block or table that contains it."""

    text: str
    lines: list[_Line] = field(default_factory=list)
    code: list[CodeRange] = field(default_factory=list)
    _prose: list[tuple[int, int]] = field(default_factory=list)
    _fence: Fence | None = None
    _code_begin: int = 0
    _prose_begin: int = 0
    _in_table: bool = False

    def parse(self) -> None:
        begin = 0
        for line in self.text.split("\n"):
            end = begin + len(line)
            self.lines.append(_Line(begin, end, self._kind(line, begin, end), line[:1] in (" ", "\t")))
            begin = end + 1
        if self._fence:
            last = self.lines[-1]
            may_be_closing_fence = not self.text[last.begin :].strip().strip(self._fence.ticks[0])
            if may_be_closing_fence:
                last.kind = _LineKind.BLANK
            self._end_code(last.begin if may_be_closing_fence else last.end, last.end)
        else:
            self._prose.append((self._prose_begin, len(self.text)))

    def _kind(self, line: str, begin: int, end: int) -> _LineKind:
        if self._fence and self._fence.is_outside_quote(line):
            self._end_code(begin, begin)
        if self._fence:
            if not self._fence.is_closed_by(line):
                return _LineKind.CODE if line.strip() else _LineKind.BLANK
            self._end_code(begin, end)
            return _LineKind.CLOSING_FENCE
        self._fence = opening_fence(line) if "```" in line or "~~~" in line else None
        if self._fence:
            self._prose.append((self._prose_begin, begin))
            self._code_begin = end + 1
            self._in_table = False
            return _LineKind.OPENING_FENCE
        return self._kind_of_prose(line.strip())

    def _end_code(self, code_end: int, prose_begin: int) -> None:
        assert self._fence
        self.code.append(CodeRange(self._code_begin, code_end, self._fence))
        self._fence = None
        self._prose_begin = prose_begin

    def _kind_of_prose(self, line: str) -> _LineKind:
        if not line:
            self._in_table = False
            return _LineKind.BLANK
        if "|" not in line:
            self._in_table = False
        elif _DELIMITER_ROW.fullmatch(line):
            self._in_table = True
            return _LineKind.DELIMITER_ROW
        if self._in_table or line[0] == "|":
            return _LineKind.ROW
        if _HEADING.match(line):
            return _LineKind.HEADING
        return _LineKind.ITEM if _ITEM.match(line) else _LineKind.TEXT

    def inline_spans(self) -> list[UnbreakableSpan]:
        return [
            UnbreakableSpan(begin + span.begin, begin + span.end, span.damage)
            for begin, end in self._prose
            for span in find_spans(self.text[begin:end], is_partial=end == len(self.text))
        ]


def _line_spans(lines: list[_Line]) -> list[UnbreakableSpan]:
    damage = {
        _LineKind.OPENING_FENCE: CutDamage.BROKEN,
        _LineKind.CLOSING_FENCE: CutDamage.BROKEN,
        _LineKind.ROW: CutDamage.BROKEN,
        _LineKind.DELIMITER_ROW: CutDamage.BROKEN,
        _LineKind.CODE: CutDamage.UGLY,
    }
    return [UnbreakableSpan(line.begin, line.end, damage[line.kind]) for line in lines if line.kind in damage]


def _title_spans(lines: list[_Line]) -> list[UnbreakableSpan]:
    """Keep a heading, or the head of a table, in one message with the line after it."""
    found = []
    visible = [line for line in lines if line.kind is not _LineKind.BLANK]
    for line, following in pairwise([*visible, lines[-1]]):
        if (
            line.kind in (_LineKind.HEADING, _LineKind.DELIMITER_ROW)
            or following.kind is _LineKind.DELIMITER_ROW
        ):
            found.append(UnbreakableSpan(line.begin, following.begin + 1, CutDamage.UGLY))
    return found


def _cut_points(lines: list[_Line]) -> dict[CutPoint, list[int]]:
    """Go from the last line to the first, so that each line knows the next line that is not blank."""
    points: dict[CutPoint, list[int]] = {}
    # The last line may be incomplete: it has no cut point, and while it is blank it may become anything.
    following = lines[-1] if lines[-1].kind is not _LineKind.BLANK else None
    gap = False
    for line in reversed(lines[:-1]):
        if line.kind is _LineKind.BLANK:
            gap = True
            continue
        point = _cut_point(line, following, gap=gap)
        if point:
            points.setdefault(point, []).append(line.end)
        following, gap = line, False
    for ends in points.values():
        ends.reverse()
    return points


def _cut_point(line: _Line, following: _Line | None, *, gap: bool) -> CutPoint | None:
    after = following.kind if following else None
    if line.kind is _LineKind.OPENING_FENCE:
        return None
    if line.kind is _LineKind.CODE:
        return CutPoint.BLANK_LINE_IN_CODE if gap else CutPoint.LINE_IN_BLOCK
    if line.kind in _ROWS and after in _ROWS and not gap:
        return CutPoint.LINE_IN_BLOCK
    if gap or line.kind is _LineKind.CLOSING_FENCE or after is _LineKind.HEADING:
        return CutPoint.ITEM if following and following.is_indented else CutPoint.PARAGRAPH
    if after is _LineKind.ITEM and following and not following.is_indented:
        return CutPoint.ITEM
    return CutPoint.LINE
