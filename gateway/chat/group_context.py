"""How a message reads for the model: who speaks, what it replies to, what was said around it.

Everything added stands in square brackets at the beginning of a line. In a group, where people could speak in each
other's name, what they wrote cannot begin a line. What somebody else wrote (a quote, what was overheard, a forward, a
file) stands between the marks of `agent/untrusted.py`.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from agent.untrusted import in_a_note, own_made_neutral, strip_role_markers, wrap_untrusted
from gateway.types import ChatMessage, Quote

_MOST_PLACES = 1_000


@dataclass(slots=True)
class _Remarks:
    newest: deque[Overheard]
    count: int = 0
    told: dict[str, int] = field(default_factory=dict)
    """How many had been made when each listener was last told."""


class GroupContext:
    """The newest `most` remarks per place. In a group with a conversation per person, each of them is a listener."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._places: OrderedDict[Hashable, _Remarks] = OrderedDict()

    def keep(self, most: int) -> None:
        """Another number from now on: of what was overheard so far, as many as that."""
        self._most = most
        for remarks in self._places.values():
            remarks.newest = deque(remarks.newest, maxlen=most)

    def add(self, place: Hashable, remark: Overheard) -> None:
        if not self._most:
            return
        remarks = self._places.setdefault(place, _Remarks(deque(maxlen=self._most)))
        remarks.newest.append(remark)
        remarks.count += 1
        self._places.move_to_end(place)
        if len(self._places) > _MOST_PLACES:
            self._places.popitem(last=False)

    def take(self, place: Hashable, listener: str = "") -> list[Overheard]:
        """What this listener has not been told: after that it is in their history."""
        remarks = self._places.get(place)
        if remarks is None:
            return []
        new = remarks.count - remarks.told.get(listener, 0)
        remarks.told[listener] = remarks.count
        return list(remarks.newest)[-new:] if new else []


_LONGEST_NAME = 40
_LONGEST_QUOTE = 1_000
_LONGEST_OVERHEARD = 500

_OVERHEARD = "[Said in the group since then, not to you:]"
_NOW = "[End of that. To you:]"


@dataclass(frozen=True, slots=True)
class Overheard:
    """Something said in a group that was not meant for the bot, or a later change to an earlier message."""

    speaker: str
    text: str


def as_read(message: ChatMessage, overheard: Iterable[Overheard], files: Iterable[str] = ()) -> str:
    """`files` are the paragraphs about what was attached."""
    said = message.text
    if message.place.kind == "group":
        said = f"{speaker(message.author.name)}: " + "\n  ".join(own_made_neutral(said).splitlines())
    paragraphs = [*_overheard(overheard), *_quoted(message.quote), said, *files]
    return "\n".join(paragraph for paragraph in paragraphs if paragraph)


def speaker(name: str) -> str:
    """A name that can neither be mistaken for a marker nor bring a line of its own."""
    plain = " ".join(re.sub(r"[\[\]<>:|\x00-\x1f\u2028\u2029]", " ", strip_role_markers(name)).split())
    return plain[:_LONGEST_NAME] or "Somebody"


def _overheard(overheard: Iterable[Overheard]) -> list[str]:
    lines = [f"{speaker(each.speaker)}: {_shortened(each.text, _LONGEST_OVERHEARD)}" for each in overheard]
    return [_OVERHEARD, wrap_untrusted("\n".join(lines)), _NOW] if lines else []


def _quoted(quote: Quote | None) -> list[str]:
    if quote is None or not quote.text.strip():
        return []
    return [f"[In reply to {speaker(quote.author)}:]", wrap_untrusted(_shortened(quote.text, _LONGEST_QUOTE))]


def _shortened(text: str, longest: int) -> str:
    """On one line, which nobody else can have begun."""
    line = in_a_note(text)
    return line if len(line) <= longest else line[: longest - 1] + "…"
