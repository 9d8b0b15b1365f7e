"""Finds spans of Markdown that a cut would damage: links, URLs, inline code, emphasis."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum


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
