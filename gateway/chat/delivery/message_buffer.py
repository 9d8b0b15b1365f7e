"""The message that a text is being written into."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.text.fences import Fence, opening_fence
from gateway.text.unicode import Measure, is_blank


@dataclass(slots=True)
class MessageBuffer:
    """Its text so far, and what is known of it on the other side."""

    measure: Measure
    count: int = 0
    """Characters of the text."""
    size: int = 0
    """The same as the service counts."""
    began: float | None = None
    """When there first was something to see."""
    message_id: str = ""
    visible: int = 0
    """Characters that the service has confirmed to show."""
    looked_at: int = 0
    """At this length there was no place yet to cut it."""
    refused: bool = False
    """The service did not take it unfinished; finished, it may."""
    may_be_there: bool = False
    """It was sent, and nobody knows whether it has arrived."""
    in_doubt: int = 0
    """So many of its first characters may be there then, if that is known."""
    may_show_more: bool = False
    """The same of an edit."""
    _parts: list[str] = field(default_factory=list)

    def add(self, text: str, now: float) -> None:
        """Costs no more than the added text: all of it is joined only when it is looked at."""
        self._parts.append(text)
        self.count += len(text)
        self.size += self.measure(text)
        if self.began is None and not is_blank(text):
            self.began = now

    def text(self) -> str:
        self._parts = ["".join(self._parts)]
        return self._parts[0]

    def not_visible(self, count: int) -> str:
        """Of so many characters those that are not seen, for another message. A code block that is open where the
        seen text ends is opened again."""
        seen, rest = self.text()[: self.visible], self.text()[self.visible : count]
        fence = _open_fence(seen) if rest and seen else None
        if fence is None:
            return rest
        return fence.reopening_line + ("" if rest.startswith("\n") else "\n") + rest


def common_ending(one: str, other: str) -> int:
    """How many characters both end with. A shorter ending than that is common, too, and a longer one is not."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        length = (least + most + 1) // 2
        if one.endswith(other[len(other) - length :]):
            least = length
        else:
            most = length - 1
    return least


def _open_fence(text: str) -> Fence | None:
    fence: Fence | None = None
    for line in text.split("\n"):
        if fence and fence.is_outside_quote(line):
            fence = None
        if fence is None:
            fence = opening_fence(line)
        elif fence.is_closed_by(line):
            fence = None
    return fence
