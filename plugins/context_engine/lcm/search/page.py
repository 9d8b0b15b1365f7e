"""Hits as text for a model, as many as fit: grouped under their summaries, within a group in the order they were said.

Every token beside what was said costs a message, hence one letter for a role, and a date only where it changes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from agent.tokens import estimate_text_tokens

from ..messages import Stored, messages_by_key
from ..report import moment
from .cover import Context, Cover, covers_of
from .excerpt import line_of
from .request import Hit

_LETTERS = {"user": "u", "assistant": "a", "tool": "t"}
LEGEND = "u user, a assistant, t tool"
_AT_ONCE = 100
_LEAST_LINE = 12
"""Tokens; with less room than this a page is full."""
_MOST_MISSES = 10
"""Lines that are tried when one does not fit any more."""
_LONGEST_NAME = 40


@dataclass(slots=True)
class Group:
    cover: Cover
    heading: str
    day: str
    """Where all of it was said on one day."""
    lines: list[tuple[int, str, str]] = field(default_factory=list)
    """Number, day and text of each message."""

    def text(self) -> str:
        day = self.day
        written = [self.heading]
        for _, said_on, line in sorted(self.lines):
            name, _, rest = line.partition(" ")
            written.append(line if said_on == day else f"{name} {said_on} {rest}")
            day = said_on
        return "\n".join(written)


@dataclass(slots=True)
class Page:
    """Groups in the order of their best hits."""

    groups: dict[Cover, Group] = field(default_factory=dict)
    tokens: float = 0.0
    shown: set[int] = field(default_factory=set)

    def text(self) -> str:
        return "\n".join(group.text() for group in self.groups.values())

    def add(self, message: Stored, cover: Cover, line: str, room: float) -> bool:
        """False where there is no room for it."""
        group = self.groups.get(cover)
        new = group is None
        group = group or _group(cover)
        day = moment(message.said_at)[:10]
        dated = day != group.day and all(day != said_on for _, said_on, _ in group.lines)
        cost = _cost(line) + (_cost(day) if dated else 0) + (_cost(group.heading) if new else 0)
        if self.tokens + cost > room:
            return False
        self.tokens += cost
        group.lines.append((message.seq, day, line))
        self.groups[cover] = group
        self.shown.add(message.key)
        return True


@dataclass(frozen=True, slots=True)
class Shelf:
    """What a page is made of."""

    connection: sqlite3.Connection
    context: Context
    words: tuple[str, ...]
    room: int
    """In tokens."""


def pages(shelf: Shelf, hits: Sequence[Hit]) -> Iterator[Page]:
    """One after the other, each as full as it gets, until all hits are shown. The best are on the first."""
    coming = _lines(shelf, hits)
    waiting: list[tuple[Stored, Cover, str]] = []
    while True:
        page, passed_by = Page(), list[tuple[Stored, Cover, str]]()
        for entry in chain(_taken(waiting), coming):
            if not page.add(*entry, shelf.room) and not _must_go(page, entry, shelf.room):
                passed_by.append(entry)
                if len(passed_by) >= _MOST_MISSES or page.tokens > shelf.room - _LEAST_LINE:
                    break
        if not page.groups:
            return
        yield page
        waiting = passed_by + waiting


def _must_go(page: Page, entry: tuple[Stored, Cover, str], room: int) -> bool:
    """A line that is larger than an empty page stands on one by itself."""
    return not page.groups and page.add(*entry, float("inf"))


def _taken(waiting: list[tuple[Stored, Cover, str]]) -> Iterator[tuple[Stored, Cover, str]]:
    while waiting:
        yield waiting.pop(0)


def _lines(shelf: Shelf, hits: Sequence[Hit]) -> Iterator[tuple[Stored, Cover, str]]:
    for start in range(0, len(hits), _AT_ONCE):
        some = hits[start : start + _AT_ONCE]
        messages = messages_by_key(shelf.connection, [hit.key for hit in some])
        covers = covers_of(shelf.connection, some, shelf.context)
        for hit in some:
            cover = covers[hit.key]
            yield messages[hit.key], cover, _line(messages[hit.key], _prefix(shelf.context, hit), shelf.words)


def _prefix(context: Context, hit: Hit) -> str:
    return "" if hit.conversation == context.conversation else f"c{hit.conversation}."


def _line(message: Stored, prefix: str, words: Sequence[str]) -> str:
    text = line_of(message.chat, words)
    name = " ".join(str(message.chat.get("name") or "").split())[:_LONGEST_NAME]
    who = _LETTERS.get(message.role, message.role)
    if name and not text.startswith(name):
        who += f" {name}"
    return f"{prefix}{message.id} {who}: {text}"


def _group(cover: Cover) -> Group:
    prefix = f"c{cover.conversation}." if cover.is_foreign else ""
    if cover.leaf is None:
        return Group(
            cover, cover.note or (f"{prefix[:-1]}, another conversation" if prefix else "no summary yet"), ""
        )
    first, last = (moment(each)[:10] for each in (cover.leaf.earliest, cover.leaf.latest))
    days = first if first == last else f"{first}..{last[5:] if first[:4] == last[:4] else last}"
    heading = f"{prefix}{cover.leaf.id} {days}" + (f" ({cover.note})" if cover.note else "")
    return Group(cover, heading, first if first == last else "")


def _cost(line: str) -> float:
    """With the end of the line, and not rounded up: there are many lines."""
    return (len(line) + 1) / 4 if line.isascii() else estimate_text_tokens(line) + 0.25
