"""Exact search: phrases and words from the word index, and regular expressions; newest first."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from sqlite3 import Connection

import regex  # type: ignore[import-untyped]

from agent.fts_text import parse_query, quoted

from ..messages import MAX_INDEXED, StoredMessage, messages_by_key, scope_of, searchable_text
from .request import Hit, InvalidSearch, SearchRequest, SearchResult

ALL_KEYS = (0, 2**62)
NO_QUOTES = str.maketrans('"“”', "   ")


@dataclass(frozen=True, slots=True)
class Postings:
    word: str
    keys: frozenset[int]
    is_common: bool
    """Whether there are more messages than were read."""

    def weight(self, messages: int) -> float:
        return math.log(1 + (messages - len(self.keys) + 0.5) / (len(self.keys) + 0.5))


def load_postings(
    connection: Connection, conversations: Sequence[int], word: str, bounds: tuple[int, int], most: int
) -> Postings:
    rows = connection.execute(
        "SELECT rowid FROM message_words WHERE message_words MATCH ? AND rowid BETWEEN ? AND ? "
        "ORDER BY rowid DESC LIMIT ?",
        (match_expression(conversations, (word,)), *bounds, most + 1),
    )
    keys = [row[0] for row in rows]
    return Postings(word, frozenset(keys[:most]), len(keys) > most)


def match_expression(conversations: Sequence[int], phrases: Iterable[str]) -> str:
    """Return an FTS5 expression: all phrases, in one of the conversations."""
    scopes = " OR ".join(f'"{scope_of(key)}"' for key in conversations)
    return f"scope : ({scopes}) AND " + " AND ".join(f"body : {quoted(phrase)}" for phrase in phrases)


def key_bounds(connection: Connection, request: SearchRequest) -> tuple[int, int] | None:
    """Return the first and last key of the requested period, or None if it has no messages.

    Keys in between may lie outside of it: clocks step.
    """
    if request.since is None and request.until is None:
        return ALL_KEYS
    first, last = connection.execute(
        "SELECT min(key), max(key) FROM messages WHERE conversation IN (SELECT value FROM json_each(?)) "
        "AND said_at >= ? AND said_at < ?",
        (
            json.dumps(request.conversations),
            -math.inf if request.since is None else request.since,
            math.inf if request.until is None else request.until,
        ),
    ).fetchone()
    return None if first is None else (first, last)


MAX_HITS = 1_000
_MAX_ROWS = 20_000
"""Messages with the words that are filtered by role and time."""


def phrase_search(connection: Connection, request: SearchRequest) -> SearchResult:
    text = " ".join(request.text.translate(NO_QUOTES).split())
    if not parse_query(text).words:
        return SearchResult([])
    return _search_phrases(connection, request, (text,))


def all_words_search(connection: Connection, request: SearchRequest) -> SearchResult:
    query = parse_query(request.text)
    return _search_phrases(connection, request, (*query.phrases, *query.words))


def _search_phrases(connection: Connection, request: SearchRequest, phrases: tuple[str, ...]) -> SearchResult:
    bounds = key_bounds(connection, request)
    if not phrases or bounds is None:
        return SearchResult([], phrases)
    rows = connection.execute(
        "SELECT key, conversation, seq, role, said_at FROM message_words JOIN messages ON key = message_words.rowid "
        "WHERE message_words MATCH ? AND message_words.rowid BETWEEN ? AND ? "
        "ORDER BY message_words.rowid DESC LIMIT ?",
        (match_expression(request.conversations, phrases), *bounds, _MAX_ROWS),
    )
    hits: list[Hit] = []
    for key, conversation, seq, role, said_at in rows:
        if request.admits(role, said_at):
            if len(hits) == MAX_HITS:
                return SearchResult(hits, phrases, more=True)
            hits.append(Hit(key, conversation, seq, said_at, 1.0))
    return SearchResult(hits, phrases)


MAX_SECONDS = 2.0
"""For all messages together."""
_MAX_MESSAGE_SECONDS = 0.5
_MAX_PATTERN = 500
_MAX_REPEATS = 1_000
_BATCH = 500
_COUNTS = re.compile(r"\{(\d*),?(\d*)\}")


def regex_search(
    connection: Connection, request: SearchRequest, seconds: float = MAX_SECONDS
) -> SearchResult:
    pattern = _compile(request.text)
    deadline = time.monotonic() + seconds
    hits: list[Hit] = []
    for message, conversation in _newest_first(connection, request.conversations):
        left = deadline - time.monotonic()
        if left <= 0:
            return SearchResult(hits, searched_back_to=message.said_at)
        if request.admits(message.role, message.said_at) and _matches(pattern, message, left):
            if len(hits) == MAX_HITS:
                return SearchResult(hits, more=True)
            hits.append(Hit(message.key, conversation, message.seq, message.said_at, 1.0))
    return SearchResult(hits)


def _newest_first(
    connection: Connection, conversations: Sequence[int]
) -> Iterator[tuple[StoredMessage, int]]:
    """Yield messages with their conversation, loading them in batches."""
    rows = connection.execute(
        "SELECT key, conversation FROM messages WHERE conversation IN (SELECT value FROM json_each(?)) "
        "AND NOT echo",
        (json.dumps(conversations),),
    )
    newest = sorted(map(tuple, rows), reverse=True)
    for start in range(0, len(newest), _BATCH):
        some = newest[start : start + _BATCH]
        messages = messages_by_key(connection, [key for key, _ in some])
        yield from ((messages[key], conversation) for key, conversation in some)


def _matches(pattern: regex.Pattern[str], message: StoredMessage, seconds: float) -> bool:
    text = searchable_text(message.chat)[:MAX_INDEXED]
    try:
        return pattern.search(text, timeout=min(seconds, _MAX_MESSAGE_SECONDS), concurrent=True) is not None
    except TimeoutError:
        raise InvalidSearch(
            f"The pattern takes too long (at {message.id}). Avoid nested repeats like (a+)+, or search for a word in "
            "it with mode `natural`."
        ) from None


def _compile(text: str) -> regex.Pattern[str]:
    """Compile without regard to case, unless the pattern says (?-i:...)."""
    if len(text) > _MAX_PATTERN:
        raise InvalidSearch(f"The pattern is longer than {_MAX_PATTERN} characters.")
    repeated = 1
    for least, most in _COUNTS.findall(text):
        repeated *= max(1, int(least or 0), int(most or 0))
    if repeated > _MAX_REPEATS:
        raise InvalidSearch(
            f"The pattern repeats things more than {_MAX_REPEATS:,} times. Use smaller counts."
        )
    try:
        return regex.compile(text, regex.IGNORECASE | regex.MULTILINE)
    except (regex.error, OverflowError, RecursionError) as error:
        raise InvalidSearch(
            f"{text[:60]!r} is not a regular expression: {error}. Write a backslash before literal special characters."
        ) from None
