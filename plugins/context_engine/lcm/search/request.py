"""Search requests and results."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Mode = Literal["natural", "phrase", "all", "regex"]
MODES: tuple[Mode, ...] = ("natural", "phrase", "all", "regex")


class InvalidSearch(Exception):
    """A request that cannot be searched. The text says what to write instead."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    text: str
    mode: Mode = "natural"
    role: str = ""
    """Only messages with this role; empty for all."""
    since: float | None = None
    until: float | None = None
    """Unix times: `since` is included, `until` is not."""
    without: frozenset[int] = frozenset()
    """Keys of messages that cannot be hits, such as the question itself."""

    def admits(self, role: str, said_at: float) -> bool:
        return (
            (not self.role or role == self.role)
            and (self.since is None or said_at >= self.since)
            and (self.until is None or said_at < self.until)
        )


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that was found; its text is loaded when it is shown."""

    key: int
    conversation: int
    seq: int
    said_at: float
    score: float


@dataclass(frozen=True, slots=True)
class SearchResult:
    hits: list[Hit]
    """Best first; newest first in exact modes."""
    words: tuple[str, ...] = ()
    """Words for the excerpt of a long message."""
    more: bool = False
    """Whether there are more hits than were read."""
    searched_back_to: float | None = None
    """Time of the oldest message that was searched, if time ran out."""


@dataclass(frozen=True, slots=True)
class RankingRow:
    """The columns of a message that ranking needs."""

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
    """Count by the highest number, because numbers have no gaps."""
    return sum(
        connection.execute(
            "SELECT coalesce(max(seq), 0) FROM messages WHERE conversation = ?", (key,)
        ).fetchone()[0]
        for key in conversations
    )
