"""What is asked of the search, and what it answers."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Mode = Literal["natural", "phrase", "all", "regex"]
MODES: tuple[Mode, ...] = ("natural", "phrase", "all", "regex")


class InvalidSearch(Exception):
    """Its text is a sentence that says what to write instead."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    text: str
    mode: Mode = "natural"
    role: str = ""
    """Only what was said in this role; all where it is empty."""
    since: float | None = None
    until: float | None = None
    """Seconds since 1970. The first is within, the second is not."""
    without: frozenset[int] = frozenset()
    """Keys of messages that are no hits: what is asked just now is no answer to itself."""

    def admits(self, role: str, said_at: float) -> bool:
        return (
            (not self.role or role == self.role)
            and (self.since is None or said_at >= self.since)
            and (self.until is None or said_at < self.until)
        )


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that was found. The text itself is read when it is shown."""

    key: int
    conversation: int
    seq: int
    said_at: float
    score: float


@dataclass(frozen=True, slots=True)
class SearchResult:
    hits: list[Hit]
    """Best first, or newest first where all are equally good."""
    words: tuple[str, ...] = ()
    """What to look for in a long message when it is shown in part."""
    more: bool = False
    """There are further hits, which were not looked at."""
    searched_back_to: float | None = None
    """Time or size ran out here: everything newer was looked through."""


@dataclass(frozen=True, slots=True)
class RankingRow:
    """A message as far as ranking needs it."""

    key: int
    conversation: int
    seq: int
    role: str
    tokens: int
    said_at: float
    speaker: str

    def hit(self, score: float) -> Hit:
        return Hit(self.key, self.conversation, self.seq, self.said_at, score)


def count_messages(connection: sqlite3.Connection, conversations: Sequence[int]) -> int:
    """How many there are: they count up without gaps."""
    return sum(
        connection.execute(
            "SELECT coalesce(max(seq), 0) FROM messages WHERE conversation = ?", (key,)
        ).fetchone()[0]
        for key in conversations
    )
