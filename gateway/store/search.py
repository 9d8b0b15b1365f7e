"""Finds and ranks messages in a full-text index, at a bounded cost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from agent.fts_text import Query, quoted
from gateway.store.index import conversation_token, person_token

SCORED = 500
"""How many messages a search scores at most.

Finding the matches of a word is cheap, scoring them is not: for a word that half of all messages have it would
take a tenth of a second. Of matches beyond this number the newest are as good as any.
"""

_COUNT = "SELECT count(*) FROM (SELECT 1 FROM message_index WHERE message_index MATCH ? LIMIT ?)"

_NEWEST = "SELECT rowid FROM message_index WHERE message_index MATCH ? ORDER BY rowid DESC LIMIT ?"

_SCORED = "SELECT rowid, bm25(message_index, 0.0, 1.0, 0.2) FROM message_index WHERE message_index MATCH ?"
"""The weights of the columns: `scope` only selects, and what tools put out counts less than what was said."""


class Scope(NamedTuple):
    """Whose messages, and of which conversation."""

    person: str | None = None
    conversation_id: str | None = None


class Match(NamedTuple):
    """Sorts best first, and newest first among equals."""

    partial: bool
    score: float
    negative_seq: int

    @property
    def seq(self) -> int:
        return -self.negative_seq


def find(connection: sqlite3.Connection, query: Query, scope: Scope, limit: int) -> list[Match]:
    """Those with all that was asked for, best first; then those with some of it, up to the limit."""
    limit = max(limit, 0)
    asked = [*query.phrases, *query.terms]
    matches = _best(connection, _all_of(asked), scope, limit, partial=False)
    if len(matches) < limit and len(asked) + len(query.words) > 2:  # with one of each they are the same
        known = {match.seq for match in matches}
        some = _all_of(query.phrases) or _any_of(_telling(connection, query.words, scope))
        others = _best(connection, some, scope, limit + len(known), partial=True)
        matches += [match for match in others if match.seq not in known]
    return matches[:limit]


def _best(
    connection: sqlite3.Connection, wanted: str, scope: Scope, limit: int, *, partial: bool
) -> list[Match]:
    if not wanted:
        return []
    if _count(connection, wanted, scope) < SCORED:
        scored = connection.execute(_SCORED, (_within(scope, wanted),))
        return sorted(Match(partial, score, -seq) for seq, score in scored)[:limit]
    newest = _newest(connection, f"said : ({wanted})", scope, limit)
    newest += _newest(connection, f"tool : ({wanted})", scope, limit - len(newest))
    return [Match(partial, float(rank), -seq) for rank, seq in enumerate(newest)]


def _count(connection: sqlite3.Connection, wanted: str, scope: Scope) -> int:
    """Up to the number that can be scored."""
    (count,) = connection.execute(_COUNT, (_within(scope, wanted), SCORED)).fetchone()
    return int(count)


def _newest(connection: sqlite3.Connection, wanted: str, scope: Scope, limit: int) -> list[int]:
    return [seq for (seq,) in connection.execute(_NEWEST, (_within(scope, wanted), limit))]


def _telling(connection: sqlite3.Connection, words: Iterable[str], scope: Scope) -> list[str]:
    """The rarest words, as many as can be scored. Beside those, a common one says nothing."""
    counted = {word: _count(connection, quoted(word), scope) for word in words}
    telling: list[str] = []
    total = 0
    for word in sorted(counted, key=lambda word: (counted[word], -len(word))):
        total += counted[word]
        if telling and total >= SCORED:
            break
        if counted[word]:
            telling.append(word)
    return telling


def _within(scope: Scope, wanted: str) -> str:
    conditions = [f"{{said tool}} : ({wanted})"]
    if scope.person is not None:
        conditions.append(f'scope : "{person_token(scope.person)}"')
    if scope.conversation_id is not None:
        conditions.append(f'scope : "{conversation_token(scope.conversation_id)}"')
    return " AND ".join(conditions)


def _all_of(phrases: Iterable[str]) -> str:
    return " AND ".join(map(quoted, phrases))


def _any_of(phrases: Iterable[str]) -> str:
    return " OR ".join(map(quoted, phrases))
