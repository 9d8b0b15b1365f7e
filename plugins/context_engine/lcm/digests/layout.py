"""Layout of a digest: sections in order of importance, cut to a token budget; values and lines in short form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agent.compression.truncate import fair_cap
from agent.redaction import REDACTED, redact
from agent.tokens import cut_to_tokens, estimate_text_tokens

_MAX_LINES = 3_000
"""Lines of a section: more than any digest has room for."""
_MIN_SECTION_TOKENS = 12
_NOTE_TOKENS = 6
"""Reserved for the note that lines are missing."""
_MAX_LINE = 200
_MAX_VALUE = 40
_MAX_SEARCHED = 4_000
"""Characters of a value or a line that are searched for secrets before any are shown: half a key does not look like
a key."""


@dataclass(frozen=True, slots=True)
class Section:
    """Lines under a title, each with a level. Lines of a low level are kept first: a class before its methods."""

    title: str
    lines: Sequence[tuple[int, str]]
    from_end: bool = False
    """Keep the last lines rather than the first."""
    more: int | None = 0
    """Lines that are left out already. None for an excerpt, whose missing lines are not counted."""

    @classmethod
    def flat(
        cls, title: str, lines: Iterable[str], *, from_end: bool = False, more: int | None = 0
    ) -> Section:
        return cls(title, [(0, line) for line in lines], from_end, more)


@dataclass(frozen=True, slots=True)
class Findings:
    """A description of a text by one reader."""

    kind: str
    facts: str
    """Written by the reader; quotes nothing."""
    sections: Sequence[Section]
    brief: Sequence[Section] = field(default=())
    """A shorter version, used where the sections do not fit."""


def fitted(findings: Findings, tokens: int) -> str:
    """Render as much as fits, in about `tokens` tokens."""
    sections = [section for section in findings.sections if section.lines]
    if findings.brief and sum(map(_size, sections)) > tokens:
        sections = [section for section in findings.brief if section.lines]
    sizes = list(map(_size, sections))
    while len(sections) > 1 and fair_cap(sizes, tokens, 0) < min(_MIN_SECTION_TOKENS, *sizes):
        sections.pop()
        sizes.pop()
    cap = fair_cap(sizes, tokens, 0)
    return "\n".join(line for section in sections for line in _cut(section, cap))


def one_line(text: str, limit: int = _MAX_LINE) -> str:
    """Redact the text, join its lines and truncate it."""
    words = " ".join(redact(text[:_MAX_SEARCHED]).split())
    return words if len(words) <= limit else words[: limit - 1] + "…"


def verbatim_line(line: str, limit: int = _MAX_LINE) -> str:
    """Redact and truncate a line, keeping its indentation."""
    line = redact(line[:_MAX_SEARCHED].rstrip())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def short_value(name: str, text: str, limit: int = _MAX_VALUE) -> str:
    """Truncate the value of a field, or redact it where the value with its name looks like a secret."""
    text = text[:_MAX_SEARCHED]
    as_json = json.dumps({name[:_MAX_VALUE]: text}, ensure_ascii=False)
    as_assignment = f"{name[-_MAX_VALUE:]}={text}"
    if redact(as_json) != as_json or redact(as_assignment) != as_assignment:
        return REDACTED
    return one_line(text, limit)


def pluralize(number: int, noun: str) -> str:
    """`1 row`, `1,200 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _size(section: Section) -> int:
    lines = section.lines[:_MAX_LINES]
    return _line_size(section.title) + sum(_line_size(line) for _, line in lines) + _NOTE_TOKENS


def _line_size(line: str) -> int:
    return estimate_text_tokens(line + "\n")


def _cut(section: Section, room: int) -> list[str]:
    room -= (_line_size(section.title) if section.title else 0) + _NOTE_TOKENS
    lines = section.lines[-_MAX_LINES:] if section.from_end else section.lines[:_MAX_LINES]
    shown = [lines[index][1] for index in _fitting(lines, room, from_end=section.from_end)]
    if not shown:
        line = lines[-1 if section.from_end else 0][1]
        shown = [beginning] if (beginning := cut_to_tokens(line, max(1, room))) else []
    missing = len(section.lines) - len(shown) + (section.more or 0)
    if missing > 0:
        note = "…" if section.more is None else f"… {missing:,} more"
        shown.insert(0 if section.from_end else len(shown), note)
    return [section.title, *shown] if section.title else shown


def _fitting(lines: Sequence[tuple[int, str]], room: int, *, from_end: bool) -> list[int]:
    """Return the indices of the lines that fit: level by level, without gaps within a level."""
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
