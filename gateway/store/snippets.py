"""The text around a match, with what matched between two marks.

The index holds no text and cannot say which forms of a word it took for the same. So the few texts to be shown
go through an index of their own, with the same tokenizer, which can.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing

from agent.fts_text import BOUNDARY, Query, indexable, quoted
from agent.untrusted import without_marks
from gateway.store.index import TOKENIZER

START, END = "\x02", "\x03"
WORDS = 24

_EXCERPT = 2_000
"""Of a longer text only this much is looked at, around the first likely match: what `snippet` costs grows with the
square of the number of matches."""

_ALIKE = 4
"""So many letters at the beginning are shared by the forms of a word, in most cases."""

_OURS = str.maketrans("", "", START + END + BOUNDARY)


def snippets(texts: Mapping[int, str], query: Query) -> dict[int, str]:
    """For each text its snippet, or its beginning where nothing can be marked."""
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
