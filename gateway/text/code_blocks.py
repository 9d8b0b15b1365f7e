"""A Markdown text line by line, telling code from prose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gateway.text.fences import Fence, opened_by


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
