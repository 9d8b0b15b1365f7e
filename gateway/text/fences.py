"""Code fences: what opens one, what closes it, and how to go on with one in the next message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

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


@dataclass(slots=True)
class Block:
    """Consecutive lines of prose, or a code block with its fences."""

    fence: Fence | None
    lines: list[str] = field(default_factory=list)

    @property
    def code(self) -> str:
        """What stands between the fences, without the margin that a list or a quotation gives it."""
        fence = self.fence
        assert fence
        inner = self.lines[1:-1] if self._is_closed else self.lines[1:]
        return "".join(_without_margin(line, fence.margin) + "\n" for line in inner)

    @property
    def _is_closed(self) -> bool:
        return self.fence is not None and len(self.lines) > 1 and self.fence.is_closed_by(self.lines[-1])


def blocks(markdown: str) -> Iterator[Block]:
    """Joined by newlines, all their lines are the text again."""
    current = Block(None)
    for line in markdown.split("\n"):
        if current.fence and not current.fence.is_left_by(line):
            current.lines.append(line)
            if current.fence.is_closed_by(line):
                yield current
                current = Block(None)
            continue
        fence = opened_by(line)
        if fence or current.fence:
            if current.lines:
                yield current
            current = Block(fence)
        current.lines.append(line)
    if current.lines:
        yield current


def _without_margin(line: str, margin: str) -> str:
    for expected in margin:
        if not line.startswith((expected, " ", "\t")):
            break
        line = line[1:]
    return line
