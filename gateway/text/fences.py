"""Code fences: what opens one, what closes it, and how to go on with one in the next message."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Info strings are short; a longer line that begins with backticks is not the beginning of a code block.
_LONGEST_OPENING = 200

_OPENING = re.compile(
    r"(?P<prefix>[ \t]*(?:(?:>[ \t]*)|(?:(?:[-*+]|\d{1,9}[.)])[ \t]+))*)(?P<ticks>`{3,}|~{3,})(?P<info>.*)"
)
_LIST_MARKER = re.compile(r"[^\s>]")


@dataclass(frozen=True, slots=True)
class Fence:
    """An open code block."""

    prefix: str
    """White space, list markers and quote signs in front of the fence."""

    ticks: str
    """The fence itself: three or more backticks or tildes."""

    info: str
    """What follows the fence on its line: the language first, if anything."""

    @property
    def margin(self) -> str:
        """The prefix for lines after the first: a list marker is not repeated."""
        return _LIST_MARKER.sub(" ", self.prefix)

    @property
    def language(self) -> str:
        words = self.info.split(maxsplit=1)
        return words[0] if words else ""

    @property
    def closing_line(self) -> str:
        return self.margin + self.ticks

    @property
    def reopening_line(self) -> str:
        return self.closing_line + self.language

    def is_closed_by(self, line: str) -> bool:
        body = line.lstrip(" \t>") if self._is_quoted else line.lstrip(" \t")
        if not body.startswith(self.ticks) or body.rstrip().strip(self.ticks[0]):
            return False
        # Deeper than this it is code: an example of Markdown in a docstring, say.
        return len(line) - len(body) <= len(self.prefix) + 3

    def is_left_by(self, line: str) -> bool:
        """Whether the quotation that the fence stands in has ended."""
        return self._is_quoted and not line.lstrip().startswith(">")

    @property
    def _is_quoted(self) -> bool:
        return ">" in self.prefix


def opened_by(line: str) -> Fence | None:
    """The fence that this line opens, outside of any other."""
    found = _OPENING.fullmatch(line) if len(line) <= _LONGEST_OPENING else None
    if found is None:
        return None
    fence = Fence(found["prefix"], found["ticks"], found["info"].strip())
    is_inline_code = fence.ticks[0] == "`" and "`" in fence.info
    return None if is_inline_code else fence
