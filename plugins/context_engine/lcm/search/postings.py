# ruff: noqa: S608 - only question marks are put into the SQL
"""Which messages have a word: asked of the index, so that stems and unspaced scripts are its business alone."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.fts_text import quoted

from ..messages import scope_of
from .request import Request

ALL_KEYS = (0, 2**62)


@dataclass(frozen=True, slots=True)
class Postings:
    word: str
    keys: frozenset[int]
    is_common: bool
    """There are more than could be looked at."""

    def weight(self, messages: int) -> float:
        """The rarer, the more it says."""
        return math.log(1 + (messages - len(self.keys) + 0.5) / (len(self.keys) + 0.5))


def postings(
    connection: sqlite3.Connection,
    conversations: Sequence[int],
    word: str,
    bounds: tuple[int, int],
    most: int,
) -> Postings:
    """The newest, if there are too many."""
    rows = connection.execute(
        "SELECT rowid FROM message_words WHERE message_words MATCH ? AND rowid BETWEEN ? AND ? "
        "ORDER BY rowid DESC LIMIT ?",
        (expression(conversations, (word,)), *bounds, most + 1),
    )
    keys = [row[0] for row in rows]
    return Postings(word, frozenset(keys[:most]), len(keys) > most)


def expression(conversations: Sequence[int], phrases: Iterable[str]) -> str:
    """In the index's language: all of the phrases, in one of the conversations."""
    scopes = " OR ".join(f'"{scope_of(key)}"' for key in conversations)
    return f"scope : ({scopes}) AND " + " AND ".join(f"body : {quoted(phrase)}" for phrase in phrases)


def key_bounds(
    connection: sqlite3.Connection, conversations: Sequence[int], since: float | None, until: float | None
) -> tuple[int, int] | None:
    """Between which keys the messages of a period are; keys outside of it may be among them, for clocks step.

    None where there are no such messages.
    """
    row = connection.execute(
        f"SELECT min(key), max(key) FROM messages WHERE conversation IN ({', '.join('?' * len(conversations))}) "
        "AND said_at >= ? AND said_at < ?",
        (
            *conversations,
            -math.inf if since is None else since,
            math.inf if until is None else until,
        ),
    ).fetchone()
    return None if row[0] is None else (row[0], row[1])


def bounds_of(
    connection: sqlite3.Connection, conversations: Sequence[int], request: Request
) -> tuple[int, int] | None:
    if request.since is None and request.until is None:
        return ALL_KEYS
    return key_bounds(connection, conversations, request.since, request.until)
