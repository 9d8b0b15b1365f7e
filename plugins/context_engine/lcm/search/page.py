"""Pages of search results: as many hits as fit, grouped by summary, each on one line.

Every token of layout costs a message, so a role is one letter and a date appears only where it changes.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from sqlite3 import Connection

from agent.messages import ChatDict, call_of, text_of
from agent.tokens import cut_to_tokens, estimate_text_tokens
from agent.untrusted import without_marks

from ..context_membership import ContextMembers, Cover, covers_of
from ..formatting import format_time
from ..messages import StoredMessage, messages_by_key
from .request import Hit

MAX_WHOLE_TOKENS = 120
EXCERPT_TOKENS = 100
_MAX_SEARCHED = 100_000
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])")
"""Matches white space only after a punctuation mark, so the time stays linear in a long run of spaces."""
_GAP = "…"
_MIN_STEM = 4
_ENDING = 3
_BEFORE = 160
"""Characters shown before the word, in a sentence that is too long."""


def excerpt(chat: ChatDict, words: Sequence[str]) -> str:
    calls = (f"[calls {name} {arguments}]" for name, arguments in map(call_of, chat.get("tool_calls") or ()))
    text = "\n".join(filter(None, (without_marks(text_of(chat)), *calls)))
    if len(text) <= 4 * MAX_WHOLE_TOKENS and estimate_text_tokens(text) <= MAX_WHOLE_TOKENS:
        return " ".join(text.split())
    return _best_sentences(text[:_MAX_SEARCHED], words)


def _best_sentences(text: str, words: Sequence[str]) -> str:
    """Select sentences in their order, with a mark for each gap."""
    stems = [_stem(word) for word in words]
    parts = (part for line in text.split("\n") for part in _SENTENCE_END.split(line))
    sentences = [" ".join(part.split()) for part in parts if part.strip()]
    shared = [sum(stem in sentence.casefold() for stem in stems) for sentence in sentences]
    order = sorted(range(len(sentences)), key=lambda index: (-shared[index], index))
    shown: list[int] = []
    room = EXCERPT_TOKENS
    for index in order:
        room -= estimate_text_tokens(sentences[index]) + 1
        if room < 0:
            break
        shown.append(index)
    if not shown:
        return _around(sentences[order[0]], stems) if order else ""
    pieces: list[str] = []
    for last, index in pairwise((-1, *sorted(shown))):
        pieces += [_GAP, sentences[index]] if index > last + 1 else [sentences[index]]
    return " ".join([*pieces, _GAP] if max(shown) < len(sentences) - 1 else pieces)


def _around(sentence: str, stems: Sequence[str]) -> str:
    """Cut a long sentence from shortly before the first word of the query."""
    folded = sentence.casefold()
    places = [place for stem in stems if (place := folded.find(stem)) >= 0]
    start = max(0, min(places, default=0) - _BEFORE)
    if start:
        start = sentence.find(" ", start, start + _BEFORE) + 1 or start
    cut = cut_to_tokens(sentence[start : start + 8 * EXCERPT_TOKENS], EXCERPT_TOKENS)
    end = start + len(cut) >= len(sentence)
    return f"{_GAP + ' ' if start else ''}{cut.strip()}{'' if end else ' ' + _GAP}"


def _stem(word: str) -> str:
    """Strip a word's ending; precise enough to choose a sentence."""
    folded = word.casefold()
    if not (folded.isalpha() and folded.isascii()):
        return folded
    return folded[: max(_MIN_STEM, len(folded) - _ENDING)]


def with_neighbours(connection: Connection, hits: Sequence[Hit], reach: int) -> list[Hit]:
    """Return each hit followed by the messages around it, without duplicates."""
    if not reach:
        return list(hits)
    found: dict[int, Hit] = {hit.key: hit for hit in hits}
    order: dict[int, Hit] = {}
    for hit in hits:
        order.setdefault(hit.key, hit)
        rows = connection.execute(
            "SELECT key, seq, said_at FROM messages WHERE conversation = ? AND seq BETWEEN ? AND ? ORDER BY seq",
            (hit.conversation, hit.seq - reach, hit.seq + reach),
        )
        for key, seq, said_at in rows:
            order.setdefault(key, found.get(key) or Hit(key, hit.conversation, seq, said_at, 0.0))
    return list(order.values())


_LETTERS = {"user": "u", "assistant": "a", "tool": "t"}
LEGEND = "u user, a assistant, t tool"
_BATCH = 100
_MIN_LINE_TOKENS = 12
"""With less room a page is full."""
_MAX_MISSES = 10
"""Lines that are tried after one does not fit."""
_MAX_NAME = 40


@dataclass(slots=True)
class Group:
    """Messages under the heading of the summary that covers them."""

    heading: str
    day: str
    """The day in the heading, if all messages are from one day."""
    lines: list[tuple[int, str, str]] = field(default_factory=list)
    """Number, day and text of each message."""

    @classmethod
    def of(cls, cover: Cover) -> Group:
        prefix = f"c{cover.conversation}." if cover.is_foreign else ""
        if cover.leaf is None:
            other = f"{prefix[:-1]}, another conversation" if prefix else "no summary yet"
            return cls(cover.note or other, "")
        first, last = (format_time(each)[:10] for each in (cover.leaf.earliest, cover.leaf.latest))
        days = first if first == last else f"{first}..{last[5:] if first[:4] == last[:4] else last}"
        heading = f"{prefix}{cover.leaf.id} {days}" + (f" ({cover.note})" if cover.note else "")
        return cls(heading, first if first == last else "")

    def text(self) -> str:
        day = self.day
        written = [self.heading]
        for _, said_on, line in sorted(self.lines):
            name, _, rest = line.partition(" ")
            written.append(line if said_on == day else f"{name} {said_on} {rest}")
            day = said_on
        return "\n".join(written)


@dataclass(frozen=True, slots=True)
class Entry:
    """A message with its line on a page."""

    message: StoredMessage
    cover: Cover
    line: str


@dataclass(slots=True)
class Page:
    """Groups in the order of their best hits."""

    groups: dict[Cover, Group] = field(default_factory=dict)
    tokens: float = 0.0
    shown: set[int] = field(default_factory=set)

    def text(self) -> str:
        return "\n".join(group.text() for group in self.groups.values())

    def add(self, entry: Entry, room: float) -> bool:
        """Return False if there is no room. A line that is larger than a page is on a page by itself."""
        group = self.groups.get(entry.cover) or Group.of(entry.cover)
        day = format_time(entry.message.said_at)[:10]
        cost = _line_tokens(entry.line)
        if day != group.day and all(day != said_on for _, said_on, _ in group.lines):
            cost += _line_tokens(day)
        if entry.cover not in self.groups:
            cost += _line_tokens(group.heading)
        if self.groups and self.tokens + cost > room:
            return False
        self.tokens += cost
        group.lines.append((entry.message.seq, day, entry.line))
        self.groups[entry.cover] = group
        self.shown.add(entry.message.key)
        return True


@dataclass(frozen=True, slots=True)
class PageInputs:
    connection: Connection
    context: ContextMembers
    words: tuple[str, ...]
    room: int


def pages(inputs: PageInputs, hits: Sequence[Hit]) -> Iterator[Page]:
    """Yield full pages until all hits are shown. The best hits are on the first page."""
    coming = _entries(inputs, hits)
    waiting: deque[Entry] = deque()
    while True:
        page, passed_by = Page(), list[Entry]()
        while entry := waiting.popleft() if waiting else next(coming, None):
            if not page.add(entry, inputs.room):
                passed_by.append(entry)
                if len(passed_by) >= _MAX_MISSES or page.tokens > inputs.room - _MIN_LINE_TOKENS:
                    break
        if not page.groups:
            return
        yield page
        waiting.extendleft(reversed(passed_by))


def _entries(inputs: PageInputs, hits: Sequence[Hit]) -> Iterator[Entry]:
    for start in range(0, len(hits), _BATCH):
        some = hits[start : start + _BATCH]
        messages = messages_by_key(inputs.connection, [hit.key for hit in some])
        covers = covers_of(inputs.connection, some, inputs.context)
        for hit in some:
            prefix = "" if hit.conversation == inputs.context.conversation else f"c{hit.conversation}."
            yield Entry(messages[hit.key], covers[hit.key], prefix + _line(messages[hit.key], inputs.words))


def _line(message: StoredMessage, words: Sequence[str]) -> str:
    text = excerpt(message.chat, words)
    name = " ".join(str(message.chat.get("name") or "").split())[:_MAX_NAME]
    who = _LETTERS.get(message.role, message.role)
    if name and not text.startswith(name):
        who += f" {name}"
    return f"{message.id} {who}: {text}"


def _line_tokens(line: str) -> float:
    """Estimate without rounding up, because there are many lines."""
    return (len(line) + 1) / 4 if line.isascii() else estimate_text_tokens(line) + 0.25
