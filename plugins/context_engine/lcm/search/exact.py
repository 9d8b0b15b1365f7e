"""Messages that have a phrase, or all of some words. All hits are equally good, so the newest come first."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from agent.fts_text import parse_query

from .postings import bounds_of, expression
from .request import Found, Hit, Request

MOST_HITS = 1_000
_LOOKED_AT = 20_000
"""Messages with the words that are looked at for their role and their time."""


def phrase(connection: sqlite3.Connection, conversations: Sequence[int], request: Request) -> Found:
    text = " ".join(request.text.translate(_NO_QUOTES).split())
    if not parse_query(text).words:
        return Found([])
    return _having(connection, conversations, request, (text,))


def all_words(connection: sqlite3.Connection, conversations: Sequence[int], request: Request) -> Found:
    """Words that say nothing need not be there."""
    query = parse_query(request.text)
    return _having(connection, conversations, request, (*query.phrases, *query.words))


_NO_QUOTES = str.maketrans('"“”', "   ")


def _having(
    connection: sqlite3.Connection, conversations: Sequence[int], request: Request, phrases: tuple[str, ...]
) -> Found:
    bounds = bounds_of(connection, conversations, request)
    if not phrases or bounds is None:
        return Found([], phrases)
    rows = connection.execute(
        "SELECT key, conversation, seq, role, said_at FROM message_words JOIN messages ON key = message_words.rowid "
        "WHERE message_words MATCH ? AND message_words.rowid BETWEEN ? AND ? "
        "ORDER BY message_words.rowid DESC LIMIT ?",
        (expression(conversations, phrases), *bounds, _LOOKED_AT),
    )
    hits: list[Hit] = []
    for key, conversation, seq, role, said_at in rows:
        if request.admits(role, said_at):
            if len(hits) == MOST_HITS:
                return Found(hits, phrases, more=True)
            hits.append(Hit(key, conversation, seq, said_at, 1.0))
    return Found(hits, phrases)
