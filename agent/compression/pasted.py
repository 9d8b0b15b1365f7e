"""Tells what a person typed from what they pasted into the same message.

Quotes, forwards and files are marked by the host and left out before: see `agent/untrusted.py`. This module handles
text that was copied into the message itself: code fences, quoted lines, our own blocks, and walls of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agent.compression.summary_check import without_own_marks

_LONG_BLOCK = 12
"""Lines without a blank one between them. Few people type more."""
_LONG_BLOCK_CHARACTERS = 1_500
_LONG_MESSAGE = 40
"""Lines. In a longer message only the first and the last paragraph count as typed, if they differ from the rest."""
_ALIKE = 0.5
"""The share of words in common."""
_FENCE = re.compile(r"\s*(?:```|~~~)")
_QUOTED = re.compile(
    r"\s*(?:>|\||On .{5,80} wrote:$|Am .{5,80} schrieb .{2,80}:$|-{2,} ?(?:Forwarded|Original))"
)


@dataclass(frozen=True, slots=True)
class Part:
    text: str
    is_pasted: bool
    goes_on: bool = False
    """It is much like the pasted paragraph before it."""


def typed_parts(text: str) -> Iterator[Part]:
    """The message in order, paragraph by paragraph; copied blocks of ours are left out."""
    if "[" in text or "===" in text:
        text = without_own_marks(text, labels=True)
    blocks = list(_blocks(text.splitlines()))
    is_long = sum(len(block) for block, _ in blocks) > _LONG_MESSAGE
    before: set[str] | None = None
    for index, (block, is_quoted) in enumerate(blocks):
        inside = is_long and not _stands_out(blocks, index)
        joined = "\n".join(block)
        is_wall = len(block) > _LONG_BLOCK or len(joined) > _LONG_BLOCK_CHARACTERS
        is_pasted, words = is_quoted or inside or is_wall, set(joined.split())
        yield Part(joined, is_pasted, goes_on=is_pasted and before is not None and _are_alike(words, before))
        before = words if is_pasted else None


def _stands_out(blocks: list[tuple[list[str], bool]], index: int) -> bool:
    """The first or the last paragraph, where it does not go on as the paste does."""
    if 0 < index < len(blocks) - 1 or len(blocks) < 2:
        return False
    own, neighbour = (set(" ".join(blocks[i][0]).split()) for i in (index, 1 if index == 0 else index - 1))
    return not _are_alike(own, neighbour)


def _are_alike(words: set[str], others: set[str]) -> bool:
    return len(words & others) >= _ALIKE * len(words)


def _blocks(lines: list[str]) -> Iterator[tuple[list[str], bool]]:
    """Paragraphs, and whether each is fenced or quoted."""
    block: list[str] = []
    kind = in_fence = False
    for line in lines:
        fences = _FENCE.match(line) is not None
        quoted = in_fence or fences or _QUOTED.match(line) is not None
        if block and (not line.strip() or quoted != kind) and not (in_fence and kind):
            yield block, kind
            block = []
        if line.strip():
            kind = quoted
            block.append(line)
        in_fence ^= fences
    if block:
        yield block, kind
