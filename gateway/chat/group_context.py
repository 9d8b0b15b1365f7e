"""Remembers the talk in a group, and renders a message for the model with its context.

Added lines begin with a square bracket. In a group, where people could write in each other's name, the text of a
member cannot begin a line. Text of others (a quote, a remark, a forward, a file) is wrapped in the marks of
`agent/untrusted.py`.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from agent.untrusted import in_a_note, strip_added_role_markers, strip_role_markers, wrap_untrusted
from gateway.types import ChatMessage, Quote

_MAX_PLACES = 1_000
_MAX_NAME = 40
_MAX_QUOTE = 1_000
_MAX_REMARK = 500

_CONTEXT_START = "[Said in the group since then, not to you:]"
_CONTEXT_END = "[End of that. To you:]"


@dataclass(frozen=True, slots=True)
class Remark:
    """Something said in a group but not to the bot, or an edit of an earlier message."""

    speaker: str
    text: str


@dataclass(slots=True)
class _Remarks:
    newest: deque[Remark]
    count: int = 0
    read: dict[str, int] = field(default_factory=dict)
    """The count at which each listener last read."""


class GroupContext:
    """The newest `limit` remarks of each place. With a conversation per person, each conversation is a listener."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._places: OrderedDict[Hashable, _Remarks] = OrderedDict()

    def resize(self, limit: int) -> None:
        self._limit = limit
        for remarks in self._places.values():
            remarks.newest = deque(remarks.newest, maxlen=limit)

    def add(self, place: Hashable, remark: Remark) -> None:
        if not self._limit:
            return
        remarks = self._places.setdefault(place, _Remarks(deque(maxlen=self._limit)))
        remarks.newest.append(remark)
        remarks.count += 1
        self._places.move_to_end(place)
        if len(self._places) > _MAX_PLACES:
            self._places.popitem(last=False)

    def take(self, place: Hashable, listener: str = "") -> list[Remark]:
        """Return the remarks that this listener has not read."""
        remarks = self._places.get(place)
        if remarks is None:
            return []
        new = remarks.count - remarks.read.get(listener, 0)
        remarks.read[listener] = remarks.count
        return list(remarks.newest)[-new:] if new else []


def render_for_model(message: ChatMessage, remarks: Iterable[Remark], files: Iterable[str] = ()) -> str:
    """Render a message as the model reads it. `files` are paragraphs about its attachments."""
    text = message.text
    if message.place.kind == "group":
        text = f"{safe_name(message.author.name)}: " + "\n  ".join(
            strip_added_role_markers(text).splitlines()
        )
    paragraphs = [*_remark_lines(remarks), *_quote_lines(message.quote), text, *files]
    return "\n".join(paragraph for paragraph in paragraphs if paragraph)


def safe_name(name: str) -> str:
    """Clean a name so that it can neither look like a mark nor begin a line."""
    plain = " ".join(re.sub(r"[\[\]<>:|\x00-\x1f\u2028\u2029]", " ", strip_role_markers(name)).split())
    return plain[:_MAX_NAME] or "Someone"


def _remark_lines(remarks: Iterable[Remark]) -> list[str]:
    lines = [f"{safe_name(each.speaker)}: {_one_line(each.text, _MAX_REMARK)}" for each in remarks]
    return [_CONTEXT_START, wrap_untrusted("\n".join(lines)), _CONTEXT_END] if lines else []


def _quote_lines(quote: Quote | None) -> list[str]:
    if quote is None or not quote.text.strip():
        return []
    return [f"[In reply to {safe_name(quote.author)}:]", wrap_untrusted(_one_line(quote.text, _MAX_QUOTE))]


def _one_line(text: str, limit: int) -> str:
    """Put the text on one line, truncated, so that no line of it can pose as another speaker's."""
    line = in_a_note(text)
    return line if len(line) <= limit else line[: limit - 1] + "…"
