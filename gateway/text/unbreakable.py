"""Stretches of text that a cut would spoil: links, addresses, inline code, emphasis."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum


class CutDamage(IntEnum):
    """What a cut does to the stretch it falls into."""

    NONE = 0
    UGLY = 1
    """Still readable: emphasis shows its asterisks, a line of code is broken."""
    BROKEN = 2
    """A link that leads nowhere, a table row in two halves."""


@dataclass(frozen=True, slots=True)
class Span:
    begin: int
    end: int
    harm: CutDamage


_BLOCK_BEGINS = r"\n(?=[ \t\r]*(?:\n|[-*+][ \t]|\d{1,9}[.)][ \t]|\#|>|\|))"
_BACKTICKS = re.compile(rf"`+|{_BLOCK_BEGINS}")
# Chinese and Japanese go on after an address without a space.
_ADDRESS = re.compile(r"<?\b(?:https?|tg|mailto|ftp):[^\s<>\u3000-\u9fff\uff00-\uffef]+>?")
# The target of a link, up to where our knowledge ends.
_TARGET = re.compile(
    r"""\Z|\((?:[^()\s\\]|\\.|\([^()\s]*(?:\)|\Z))*"""
    r"""(?:[ \t]+(?:"[^"\n]*(?:"|\Z)|'[^'\n]*(?:'|\Z)))?[ \t]*(?:\)|\Z)"""
)
_MARK = re.compile(rf"(?P<block>{_BLOCK_BEGINS})|\\.|(?P<open>!?\[)|(?P<close>\])|(?P<run>\*+|_+|~~+|\|\|)")

_MASK = "\ufffc"


def spans(text: str, *, goes_on: bool) -> Iterator[Span]:
    """The stretches in a text without code blocks. `goes_on`: its end is where our knowledge ends, so that
    whatever is open there may yet be closed."""
    code, unfinished = _inline_code(text, goes_on=goes_on)
    yield from (Span(begin, end, CutDamage.BROKEN) for begin, end in code)
    if unfinished is not None:
        yield Span(unfinished, len(text), CutDamage.UGLY)
    text = _masked(text, code)
    for address in _ADDRESS.finditer(text):
        yield Span(address.start(), address.end(), CutDamage.BROKEN)
    yield from _Marks(text).spans(goes_on=goes_on)


def _masked(text: str, code: list[tuple[int, int]]) -> str:
    """Nothing within inline code means anything."""
    parts = []
    position = 0
    for begin, end in code:
        parts += [text[position:begin], _MASK * (end - begin)]
        position = end
    return "".join([*parts, text[position:]])


def _inline_code(text: str, *, goes_on: bool) -> tuple[list[tuple[int, int]], int | None]:
    """(the finished ones, where an unfinished one begins)."""
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
    return finished, unfinished if goes_on else None


def _partners(text: str, runs: list[tuple[int, int]]) -> dict[int, int]:
    """Backticks pair with the next run of the same length in the same block."""
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
class _Marks:
    """Brackets and emphasis, read from left to right; a new block leaves nothing open."""

    text: str
    _brackets: list[int] = field(default_factory=list)
    _emphasis: dict[str, int] = field(default_factory=dict)

    def spans(self, *, goes_on: bool) -> Iterator[Span]:
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
                    yield Span(begin, position, CutDamage.BROKEN)
            elif found["run"]:
                yield from self._emphasised(found)
        if goes_on:
            unfinished = [*self._brackets[:1], *self._emphasis.values()]
            yield from (Span(begin, len(self.text), CutDamage.UGLY) for begin in unfinished)

    def _emphasised(self, run: re.Match[str]) -> Iterator[Span]:
        before = self.text[run.start() - 1 : run.start()]
        after = self.text[run.end() : run.end() + 1]
        if before.strip() and run[0] in self._emphasis:
            yield Span(self._emphasis.pop(run[0]), run.end(), CutDamage.UGLY)
        elif after.strip() and not (run[0][0] == "_" and before.isalnum()):
            self._emphasis.setdefault(run[0], run.start())
