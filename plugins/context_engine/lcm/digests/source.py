"""A text without what the host's tools write around it: notes, page headers, line numbers, secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from agent.redaction import redact

_MAX_READ = 4_000_000
_MAX_LINES = 100_000
"""Characters and lines that are read line by line. The lines after them are only counted."""
_REDACTED_WHOLE = 400_000
_REDACTED_HEAD, _REDACTED_TAIL = 200_000, 50_000
"""Characters. In a text longer than the first number, only head and tail are searched for secrets that span lines;
quoted lines and values are searched one by one."""

_PAGE = re.compile(r"https?://\S{1,2000} \(HTTP \d{3}, [^\n]{0,200}\)\n")
_NOTE = re.compile(
    r"\n\s{0,3}(\[(?:exit code|killed with|[\d,]+ (?:lines|bytes|files)|there is more|the search)[^\n]{0,300}\])\s*\Z"
)
CUT = re.compile(r"\[… [\d,]{1,15} of [\d,]{1,15} characters left out here\.[^\n]{0,500}…\]")
"""The note by which the host marks a truncated result."""
_NUMBERED = re.compile(r"[ \t]{0,8}(\d{1,8})(?:\t|  |→|: |\| )")
_EXTENSION = re.compile(r"\.([A-Za-z0-9+]{1,8})(?![A-Za-z0-9])")
_MAX_NOTE = 400


@dataclass(frozen=True)
class Source:
    text: str
    hint: str
    notes: tuple[str, ...]
    """Notes of the host's tools about the text."""
    first_line: int
    """Number of the first line, where the text came with line numbers."""

    @cached_property
    def lines(self) -> list[str]:
        """Lines of the beginning, if the text is long."""
        read = self.text[:_MAX_READ].split("\n", _MAX_LINES)
        if len(read) > _MAX_LINES or (len(read) > 1 and (not read[-1] or len(self.text) > _MAX_READ)):
            read.pop()
        return read

    @cached_property
    def line_count(self) -> int:
        return self.text.count("\n") + (not self.text.endswith("\n")) if self.text else 0

    @cached_property
    def extensions(self) -> tuple[str, ...]:
        """File extensions in the hint, the last one first."""
        found = [extension.lower() for extension in _EXTENSION.findall(self.hint[:2_000])]
        return tuple(dict.fromkeys(reversed(found)))

    @property
    def is_fully_read(self) -> bool:
        return len(self.lines) >= self.line_count

    def line_number(self, index: int) -> int:
        return self.first_line + index


def read_source(text: str, hint: str) -> Source:
    notes: list[str] = []
    if page := _PAGE.match(text):
        notes.append(page[0].strip()[:_MAX_NOTE])
        text = text[page.end() :]
    if note := _NOTE.search(text, max(0, len(text) - 2 * _MAX_NOTE)):
        notes.append(note[1])
        text = text[: note.start()]
    if cut := CUT.search(text[:_MAX_READ]):
        notes.append(cut[0][:_MAX_NOTE])
    text, first_line = _without_numbers(_without_secrets(text))
    return Source(text, hint, tuple(notes), first_line)


def _without_secrets(text: str) -> str:
    if len(text) <= _REDACTED_WHOLE:
        return redact(text)
    head = text.rfind("\n", 0, _REDACTED_HEAD) + 1 or _REDACTED_HEAD
    tail = text.find("\n", len(text) - _REDACTED_TAIL)
    tail = tail if tail >= 0 else len(text) - _REDACTED_TAIL
    return redact(text[:head]) + text[head:tail] + redact(text[tail:])


def _without_numbers(text: str) -> tuple[str, int]:
    """Remove printed line numbers; also return the first number."""
    first = _NUMBERED.match(text)
    if first is None or len(text) > _MAX_READ:
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
