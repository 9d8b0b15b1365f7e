"""What a digest says, in the order of its worth, and how that is made to fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agent.compression.truncate import fair_cap
from agent.tokens import cut_to_tokens, estimate_text_tokens

_MOST_LINES = 3_000
"""Of a section: more than any digest has room for."""
_SMALLEST_SECTION = 12
"""Tokens. In less there is no room for a line beside the title."""
_NOTE = 6
"""Tokens for the note that something is missing."""


@dataclass(frozen=True, slots=True)
class Section:
    """Lines under a title. Those of a low level are kept first: a class before its methods."""

    title: str
    lines: Sequence[tuple[int, str]]
    from_end: bool = False
    """The last lines are worth more than the first."""
    more: int | None = 0
    """Lines that are not even here. None for an excerpt: what is missing beside it is not worth a number."""

    @classmethod
    def flat(
        cls, title: str, lines: Iterable[str], *, from_end: bool = False, more: int | None = 0
    ) -> Section:
        return cls(title, [(0, line) for line in lines], from_end, more)


@dataclass(frozen=True, slots=True)
class Findings:
    """What a reader made of a text."""

    kind: str
    facts: str
    """In our own words: nothing of the text is quoted here."""
    sections: Sequence[Section]
    brief: Sequence[Section] = field(default=())
    """The same in fewer words, for where the sections do not fit."""


def fitted(findings: Findings, tokens: int) -> str:
    """As much of it as fits, in about so many tokens."""
    sections = [section for section in findings.sections if section.lines]
    if findings.brief and sum(map(_size, sections)) > tokens:
        sections = [section for section in findings.brief if section.lines]
    sizes = list(map(_size, sections))
    while len(sections) > 1 and fair_cap(sizes, tokens, 0) < min(_SMALLEST_SECTION, *sizes):
        sections.pop()
        sizes.pop()
    cap = fair_cap(sizes, tokens, 0)
    return "\n".join(line for section in sections for line in _cut(section, cap))


def _size(section: Section) -> int:
    return (
        _line_size(section.title) + sum(_line_size(line) for _, line in section.lines[:_MOST_LINES]) + _NOTE
    )


def _line_size(line: str) -> int:
    return estimate_text_tokens(line + "\n")


def _cut(section: Section, room: int) -> list[str]:
    room -= (_line_size(section.title) if section.title else 0) + _NOTE
    lines = section.lines[-_MOST_LINES:] if section.from_end else section.lines[:_MOST_LINES]
    kept = _kept(lines, room, from_end=section.from_end)
    shown = [lines[index][1] for index in kept]
    if not shown:
        line = lines[-1 if section.from_end else 0][1]
        shown = [beginning] if (beginning := cut_to_tokens(line, max(1, room))) else []
    missing = len(section.lines) - len(shown) + (section.more or 0)
    if missing > 0:
        note = "…" if section.more is None else f"… {missing:,} more"
        shown.insert(0 if section.from_end else len(shown), note)
    return [section.title, *shown] if section.title else shown


def _kept(lines: Sequence[tuple[int, str]], room: int, *, from_end: bool) -> list[int]:
    """Which lines fit: level by level, and within a level without gaps."""
    order = sorted(
        range(len(lines)), key=lambda index: (lines[index][0], len(lines) - index if from_end else index)
    )
    kept: list[int] = []
    for index in order:
        room -= _line_size(lines[index][1])
        if room < 0:
            break
        kept.append(index)
    return sorted(kept)
