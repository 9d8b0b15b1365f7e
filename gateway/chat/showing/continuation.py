"""Going on in a new message where an earlier one broke off."""

from __future__ import annotations

from gateway.text.fences import Fence, opened_by


def from_here(text: str, position: int) -> str:
    """The text after this position. A code block that is open there is opened again."""
    rest = text[position:]
    fence = _open_fence(text[:position]) if rest and position else None
    if fence is None:
        return rest
    return fence.reopening_line + ("" if rest.startswith("\n") else "\n") + rest


def _open_fence(text: str) -> Fence | None:
    fence: Fence | None = None
    for line in text.split("\n"):
        if fence and fence.is_left_by(line):
            fence = None
        if fence is None:
            fence = opened_by(line)
        elif fence.is_closed_by(line):
            fence = None
    return fence
