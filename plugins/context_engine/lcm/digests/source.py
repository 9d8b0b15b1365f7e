"""Input and output of the readers: a text without the notes of the host's tools, and findings cut to a token budget."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from agent.compression.truncate import fair_cap
from agent.redaction import REDACTED, redact
from agent.tokens import cut_to_tokens, estimate_text_tokens

_MAX_HEAD, _MAX_TAIL = 350_000, 50_000
"""Characters that are read of a longer text."""

_PAGE = re.compile(r"https?://\S{1,2000} \(HTTP \d{3}, [^\n]{0,200}\)\n")
_NOTE = re.compile(
    r"\n\s{0,3}(\[(?:exit code|killed with|[\d,]+ (?:lines|bytes|files)|there is more|the search)[^\n]{0,300}\])\s*\Z"
)
CUT = re.compile(r"\[… [\d,]{1,15} of [\d,]{1,15} characters left out here\.[^\n]{0,500}…\]")
"""The note by which the host marks a truncated result."""
_NUMBERED = re.compile(r"[ \t]{0,8}(\d{1,8})(?:\t|  |→|: |\| )")
_MAX_NOTE = 400


@dataclass(frozen=True)
class Source:
    text: str
    notes: tuple[str, ...]
    """Notes of the host's tools about the text."""
    first_line: int
    """Number of the first line, where the text came with line numbers."""
    line_count: int
    """Lines of the whole text, also of the part that was not read."""
    is_cut: bool
    """Whether the middle of the text is missing."""

    @cached_property
    def lines(self) -> list[str]:
        return self.text.removesuffix("\n").split("\n")


def read_source(text: str) -> Source:
    notes: list[str] = []
    if page := _PAGE.match(text):
        notes.append(page[0].strip()[:_MAX_NOTE])
        text = text[page.end() :]
    if note := _NOTE.search(text, max(0, len(text) - 2 * _MAX_NOTE)):
        notes.append(note[1])
        text = text[: note.start()]
    line_count = text.count("\n") + (not text.endswith("\n")) if text else 0
    if len(text) > _MAX_HEAD + _MAX_TAIL:
        left_out = f"{len(text) - _MAX_HEAD - _MAX_TAIL:,} of {len(text):,}"
        cut_note = f"[… {left_out} characters left out here. …]"
        text = f"{text[:_MAX_HEAD]}\n{cut_note}\n{text[-_MAX_TAIL:]}"
    if cut := CUT.search(text):
        notes.append(cut[0][:_MAX_NOTE])
    text, first_line = _without_numbers(redact(text))
    return Source(text, tuple(notes), first_line, line_count, is_cut=cut is not None)


def _without_numbers(text: str) -> tuple[str, int]:
    """Remove printed line numbers; also return the first number."""
    first = _NUMBERED.match(text)
    if first is None:
        return text, 1
    begin = int(first[1])
    lines = text.split("\n")
    bare: list[str] = []
    for index, line in enumerate(lines):
        found = _NUMBERED.match(line)
        if found and int(found[1]) == begin + index:
            bare.append(line[found.end() :])
        elif not line.strip() or line.strip() == str(begin + index):
            bare.append("")
        else:
            break
    # Up to three lines of notes may follow.
    if len(bare) < 3 or len(bare) < len(lines) - 3:
        return text, 1
    return "\n".join([*bare, *lines[len(bare) :]]), begin


_MAX_SECTION_LINES = 3_000
_MIN_SECTION_TOKENS = 12
_NOTE_TOKENS = 6
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
    words = " ".join(redact(text[:_MAX_SEARCHED]).split())
    return words if len(words) <= limit else words[: limit - 1] + "…"


def verbatim_line(line: str, limit: int = _MAX_LINE) -> str:
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


def _size(section: Section) -> int:
    lines = section.lines[:_MAX_SECTION_LINES]
    return _line_size(section.title) + sum(_line_size(line) for _, line in lines) + _NOTE_TOKENS


def _line_size(line: str) -> int:
    return estimate_text_tokens(line + "\n")


def _cut(section: Section, room: int) -> list[str]:
    room -= (_line_size(section.title) if section.title else 0) + _NOTE_TOKENS
    lines = section.lines[-_MAX_SECTION_LINES:] if section.from_end else section.lines[:_MAX_SECTION_LINES]
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
