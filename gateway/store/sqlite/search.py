# ruff: noqa: S608 - only names of our own tables and columns are put into the SQL; values are always bound
"""Finds and ranks messages in a full-text index, at a bounded cost."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import NamedTuple

from agent.fts_text import BOUNDARY, Query, indexable, parse_query, quoted
from agent.messages import Message
from agent.store import SearchHit
from agent.untrusted import without_marks
from gateway.store.sql import reads
from gateway.store.sql.database import Connection, Scope, batches, marks
from gateway.store.sql.indexer import conversation_token, entries_after, person_token
from gateway.store.sql.rows import MESSAGE_COLUMNS, messages_from, storable
from gateway.store.sqlite.search_index import TOKENIZER, index_in_memory, progress

START, END = "\x02", "\x03"
WORDS = 24

_EXCERPT = 2_000
"""How much of a longer text is searched, around the first likely match: the cost of `snippet` grows with the square
of the number of matches."""

_ALIKE = 4
"""How many first letters the forms of a word usually share."""

_OURS = str.maketrans("", "", START + END + BOUNDARY)


def snippets(texts: Mapping[int, str], query: Query) -> dict[int, str]:
    """Return a snippet of each text, or its beginning if no word can be marked."""
    if not texts:
        return {}
    excerpts = {
        key: _excerpt(without_marks(text).translate(_OURS), query.marks) for key, text in texts.items()
    }
    marked = _mark(excerpts, " OR ".join(map(quoted, query.marks)))
    return {key: _on_one_line(marked.get(key) or excerpts[key][: WORDS * 6]) for key in texts}


def _excerpt(text: str, marks: Iterable[str]) -> str:
    if len(text) <= _EXCERPT:
        return text
    beginnings = "|".join(re.escape(mark[:_ALIKE]) for mark in marks)
    match = re.search(f"(?<![a-z0-9])(?:{beginnings})", text, re.IGNORECASE)
    middle = match.start() if match else 0
    start = max(0, middle - _EXCERPT // 2)
    return text[start : start + _EXCERPT]


def _mark(excerpts: Mapping[int, str], wanted: str) -> dict[int, str]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE shown USING fts5 (text, tokenize = '{TOKENIZER}')")
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO shown (rowid, text) VALUES (?, ?)",
            ((key, indexable(excerpt)) for key, excerpt in excerpts.items()),
        )
        rows = connection.execute(
            "SELECT rowid, snippet(shown, 0, ?, ?, '…', ?) FROM shown WHERE shown MATCH ?",
            (START, END, WORDS, wanted),
        )
        return dict(rows.fetchall())


def _on_one_line(text: str) -> str:
    return " ".join(text.replace(BOUNDARY, "").split())


def search(
    connection: sqlite3.Connection, text: str, scope: Scope, limit: int, platform: str | None = None
) -> list[SearchHit]:
    """Search all stored messages, also those that are not indexed yet."""
    if scope.conversation_id is not None:
        reads.conversation(connection, scope.conversation_id)
    query = parse_query(storable(text))
    looked_at = limit if platform is None else SCORED
    matches = find(connection, query, scope, looked_at) + _find_in_tail(connection, query, scope, looked_at)
    return best_hits(connection, matches, query, limit, platform)


def best_hits(
    connection: Connection, matches: list[Match], query: Query, limit: int, platform: str | None
) -> list[SearchHit]:
    if platform is not None:
        there = _on_platform(connection, matches, platform)
        matches = [match for match in matches if match.seq in there]
    return _hits(connection, sorted(matches)[: max(limit, 0)], query)


def _on_platform(connection: Connection, matches: list[Match], platform: str) -> set[int]:
    """Keep the matches on one platform, which is not in the index."""
    return {
        seq
        for batch in batches([match.seq for match in matches])
        for (seq,) in connection.execute(
            f"""
            SELECT messages.seq FROM messages JOIN sessions ON sessions.id = session_id
            JOIN conversations ON conversations.id = conversation_id
            WHERE messages.seq IN ({marks(batch)}) AND platform = ?
            """,
            (*batch, platform),
        )
    }


def _find_in_tail(connection: sqlite3.Connection, query: Query, scope: Scope, limit: int) -> list[Match]:
    """Search the messages that are not indexed yet in a temporary index: a reader cannot write to the real one."""
    indexed, stored = progress(connection)
    if indexed >= stored:
        return []
    with closing(index_in_memory(entries_after(connection, indexed))) as tail:
        return find(tail, query, scope, limit)


def _hits(connection: Connection, matches: list[Match], query: Query) -> list[SearchHit]:
    """Read the messages of the matches, and make their snippets."""
    rows = [
        row
        for batch in batches([match.seq for match in matches])
        for row in connection.execute(
            f"""
            SELECT {MESSAGE_COLUMNS}, seq, (SELECT conversation_id FROM sessions WHERE id = messages.session_id)
            FROM messages WHERE seq IN ({marks(batch)})
            """,
            batch,
        )
    ]
    found: dict[int, tuple[Message, str]] = {
        seq: (message, conversation_id)
        for message, (*_, seq, conversation_id) in zip(messages_from(rows), rows, strict=True)
    }
    shown = snippets({seq: message.content for seq, (message, _) in found.items()}, query)
    return [SearchHit(*found[match.seq], shown[match.seq]) for match in matches]


SCORED = 500
"""How many messages a search scores at most.

Finding the matches of a word is cheap, scoring them is not: for a word in half of all messages it takes a tenth of a
second. Beyond this number only the newest matches are scored.
"""

_COUNT = "SELECT count(*) FROM (SELECT 1 FROM message_index WHERE message_index MATCH ? LIMIT ?)"

_NEWEST = "SELECT rowid FROM message_index WHERE message_index MATCH ? ORDER BY rowid DESC LIMIT ?"

_SCORED = "SELECT rowid, bm25(message_index, 0.0, 1.0, 0.2) FROM message_index WHERE message_index MATCH ?"
"""The weights of the columns: `scope` only selects, and the output of tools counts less than messages."""


class Match(NamedTuple):
    """A match; sorts by rank, then newest first."""

    partial: bool
    score: float
    negative_seq: int

    @property
    def seq(self) -> int:
        return -self.negative_seq


def find(connection: sqlite3.Connection, query: Query, scope: Scope, limit: int) -> list[Match]:
    """Return messages with all words, best first, then messages with some of the words, up to the limit."""
    limit = max(limit, 0)
    asked = [*query.phrases, *query.terms]
    matches = _best(connection, _all_of(asked), scope, limit, partial=False)
    if len(matches) < limit and len(asked) + len(query.words) > 2:  # with one word both queries are the same
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
    """Count matches up to the number that can be scored."""
    (count,) = connection.execute(_COUNT, (_within(scope, wanted), SCORED)).fetchone()
    return int(count)


def _newest(connection: sqlite3.Connection, wanted: str, scope: Scope, limit: int) -> list[int]:
    return [seq for (seq,) in connection.execute(_NEWEST, (_within(scope, wanted), limit))]


def _telling(connection: sqlite3.Connection, words: Iterable[str], scope: Scope) -> list[str]:
    """Return the rarest words, as many as can be scored; common words add little to them."""
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
