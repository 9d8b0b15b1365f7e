# ruff: noqa: S608 - only names of our own tables are put into the SQL; values are always bound
"""Full text in PostgreSQL: a GIN index gives candidates, which the code for SQLite ranks.

PostgreSQL stems the words. This module cuts a text into words of plain ASCII, so that neither the locale nor the parser
of the server matters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from contextlib import closing

from agent.fts_text import Query, indexable, parse_query
from agent.store import SearchHit
from gateway.store.postgres.connection import PostgresConnection
from gateway.store.sql import reads
from gateway.store.sql.database import Scope
from gateway.store.sql.indexer import (
    STEP_CHARACTERS,
    STEP_MESSAGES,
    Entry,
    Progress,
    conversation_token,
    entries,
    person_token,
    searched_text,
)
from gateway.store.sql.rows import storable
from gateway.store.sqlite.search import SCORED, best_hits, find
from gateway.store.sqlite.search_index import index_in_memory

_MAX_WORD = 200
_MAX_PHRASE = 32
"""How many words of a phrase PostgreSQL compares; the ranking compares all of them."""

_MAX_QUEUED = 1_000
"""How many messages that are not indexed yet a search reads."""

_INSERT = """
    INSERT INTO message_index (seq, words)
    VALUES (?, to_tsvector('hermes', ?) || array_to_tsvector(ARRAY[?, ?, ?])) ON CONFLICT (seq) DO NOTHING
"""

Wanted = tuple[str, list[str]]
"""An expression for a tsquery and its values."""


# -- indexing


def progress(connection: PostgresConnection) -> Progress:
    """Return 1 of 1 if no message is queued for the index, otherwise 0 of 1."""
    queued = connection.execute("SELECT 1 FROM index_queue LIMIT 1").fetchone()
    return Progress(0 if queued else 1, 1)


def advance(connection: PostgresConnection) -> int:
    """Index some of the queued messages. Several processes can do so at the same time."""
    rows = connection.execute(
        "SELECT seq FROM index_queue ORDER BY seq LIMIT ? FOR UPDATE SKIP LOCKED", (STEP_MESSAGES,)
    )
    done: list[Entry] = []
    characters = 0
    for entry in entries(connection, [seq for (seq,) in rows]):
        done.append(entry)
        characters += len(entry.text)
        if characters >= STEP_CHARACTERS:
            break
    if not done:
        return 1
    connection.executemany(
        _INSERT, [(entry.seq, words(searched_text(entry)), *_scope(entry)) for entry in done]
    )
    connection.executemany("DELETE FROM index_queue WHERE seq = ?", [(entry.seq,) for entry in done])
    return progress(connection).indexed


def _scope(entry: Entry) -> tuple[str, str, str]:
    """Return the tokens that limit a search. No word begins with a colon."""
    role = _TOOL if entry.role == "tool" else _SAID
    return role, _person(entry.person), _conversation(entry.conversation_id)


_SAID, _TOOL = ":said", ":tool"


def _person(person: str) -> str:
    return f":p{person_token(person)}"


def _conversation(conversation_id: str) -> str:
    return f":c{conversation_token(conversation_id)}"


def words(text: str) -> str:
    """Return the words of a text as ASCII letters and digits, without diacritics, separated by spaces."""
    letters = []
    for letter in unicodedata.normalize("NFKD", indexable(text)).casefold():
        if letter.isascii():
            letters.append(letter if letter.isalnum() else " ")
        elif (category := unicodedata.category(letter))[0] in "LN" or category == "Co":
            letters.append(f"u{ord(letter):x}")
        elif not unicodedata.combining(letter):
            letters.append(" ")
    return " ".join(word[:_MAX_WORD] for word in "".join(letters).split())


# -- searching


def search(
    connection: PostgresConnection, text: str, scope: Scope, limit: int, platform: str | None = None
) -> list[SearchHit]:
    """Search all stored messages, also those that are not indexed yet."""
    if scope.conversation_id is not None:
        reads.conversation(connection, scope.conversation_id)
    query = parse_query(storable(text))
    looked_at = limit if platform is None else SCORED
    seqs = {*_candidates(connection, query, scope, max(looked_at, 0)), *_queued(connection)}
    with closing(index_in_memory(entries(connection, sorted(seqs)))) as index:
        matches = find(index, query, scope, looked_at)
    return best_hits(connection, matches, query, limit, platform)


def _queued(connection: PostgresConnection) -> list[int]:
    rows = connection.execute("SELECT seq FROM index_queue ORDER BY seq DESC LIMIT ?", (_MAX_QUEUED,))
    return [seq for (seq,) in rows]


def _candidates(connection: PostgresConnection, query: Query, scope: Scope, limit: int) -> set[int]:
    """Return the newest messages with all words and, if these are few, with the rarest of the words."""
    asked = [*query.phrases, *query.terms]
    found = _newest(connection, _joined(asked, " && "), scope, limit)
    if len(found) < limit and len(asked) + len(query.words) > 2:
        some = _joined(query.phrases, " && ")
        if not some[0]:
            some = _joined(_rarest(connection, query.words, scope), " || ")
        found |= _newest(connection, some, scope, limit)
    return found


def _joined(phrases: Iterable[str], operator: str) -> Wanted:
    texts = [" ".join(words(phrase).split()[:_MAX_PHRASE]) for phrase in phrases]
    values = [text for text in texts if text]
    return operator.join(["phraseto_tsquery('hermes', ?)"] * len(values)), values


def _newest(connection: PostgresConnection, wanted: Wanted, scope: Scope, limit: int) -> set[int]:
    """Return the newest messages and, if these are few, the newest outputs of tools."""
    expression, values = wanted
    if not values:
        return set()
    found: set[int] = set()
    number = max(limit, SCORED)
    for role in (_SAID, _TOOL):
        rows = connection.execute(
            f"SELECT seq FROM message_index WHERE words @@ ({_within(expression)}) ORDER BY seq DESC LIMIT ?",
            (*values, _tokens(scope, role), number - len(found)),
        )
        found |= {seq for (seq,) in rows}
    return found


def _rarest(connection: PostgresConnection, candidates: Iterable[str], scope: Scope) -> list[str]:
    """Return the rarest words, as many as can be scored; common words add little to them."""
    counts = {word: _count(connection, word, scope) for word in candidates}
    rarest: list[str] = []
    total = 0
    for word in sorted(counts, key=lambda word: (counts[word], -len(word))):
        total += counts[word]
        if rarest and total >= SCORED:
            break
        if counts[word]:
            rarest.append(word)
    return rarest


def _count(connection: PostgresConnection, word: str, scope: Scope) -> int:
    expression, values = _joined([word], "")
    if not values:
        return 0
    matching = f"SELECT 1 FROM message_index WHERE words @@ ({_within(expression)}) LIMIT ?"
    row = connection.execute(
        f"SELECT count(*) FROM ({matching}) AS found", (*values, _tokens(scope), SCORED)
    ).fetchone()
    return int(row[0])


def _within(expression: str) -> str:
    return f"({expression}) && CAST(? AS tsquery)"


def _tokens(scope: Scope, *roles: str) -> str:
    tokens = list(roles)
    if scope.person is not None:
        tokens.append(_person(scope.person))
    if scope.conversation_id is not None:
        tokens.append(_conversation(scope.conversation_id))
    return " & ".join(f"'{token}'" for token in tokens)
