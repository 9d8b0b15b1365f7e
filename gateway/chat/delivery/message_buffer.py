"""The text of one chat message that grows, and how much of it the chat service shows."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.text.code_blocks import Fence, opening_fence
from gateway.text.unicode import Measure, is_blank


@dataclass(slots=True)
class MessageBuffer:
    measure: Measure
    length: int = 0
    """Characters of the text."""
    size: int = 0
    """The length as the service counts it."""
    started_at: float | None = None
    """When the first visible character came."""
    message_id: str = ""
    visible: int = 0
    """Characters that the service has confirmed to show."""
    unsplit: int = 0
    """The length at which the splitter last found no place to cut."""
    partial_refused: bool = False
    """The service refused the unfinished text; it may accept the finished one."""
    maybe_sent: bool = False
    """A send call may or may not have arrived."""
    maybe_sent_length: int = 0
    """Leading characters that such a call contained, if that is known."""
    maybe_edited: bool = False
    """An edit may or may not have arrived."""
    _parts: list[str] = field(default_factory=list)

    def add(self, text: str, now: float) -> None:
        """Append text in constant time: the parts are joined only when the text is read."""
        self._parts.append(text)
        self.length += len(text)
        self.size += self.measure(text)
        if self.started_at is None and not is_blank(text):
            self.started_at = now

    def text(self) -> str:
        self._parts = ["".join(self._parts)]
        return self._parts[0]

    def hidden_text(self, length: int) -> str:
        """Return the characters up to `length` that are not visible, for another message. If the visible text ends in
        a code block, reopen it."""
        visible, hidden = self.text()[: self.visible], self.text()[self.visible : length]
        fence = _unclosed_fence(visible) if hidden and visible else None
        if fence is None:
            return hidden
        return fence.reopening_line + ("" if hidden.startswith("\n") else "\n") + hidden


def common_suffix_length(one: str, other: str) -> int:
    """Return the length of the longest common suffix, by bisection."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        length = (least + most + 1) // 2
        if one.endswith(other[len(other) - length :]):
            least = length
        else:
            most = length - 1
    return least


def _unclosed_fence(text: str) -> Fence | None:
    fence: Fence | None = None
    for line in text.split("\n"):
        if fence and fence.is_outside_quote(line):
            fence = None
        if fence is None:
            fence = opening_fence(line)
        elif fence.is_closed_by(line):
            fence = None
    return fence
