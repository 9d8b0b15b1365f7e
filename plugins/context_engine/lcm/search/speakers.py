"""Who said something, where several people talk: by the name the host gives, or by one written before a colon."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable

from agent.fts_text import parse_query

from .request import Line

OPENING = 60
"""Characters in which a name must end."""
_LABEL = re.compile(r"\s*([^\W\d_][\w.'’-]*(?: [\w.'’-]+){0,3}): ")
_LEAST = 3
_SHARE = 0.05


def speaker_of(opening: str | None, rest: str | None) -> str:
    name = json.loads(rest).get("name") if rest and '"name"' in rest else None
    if isinstance(name, str) and name:
        return name.casefold()
    label = _LABEL.match(opening or "")
    return label[1].casefold() if label else ""


def without_label(text: str) -> str:
    """What was said, without the name before it."""
    label = _LABEL.match(text[:OPENING])
    return text[label.end() :] if label else text


def named_in(words: Iterable[str], lines: Iterable[Line]) -> dict[str, frozenset[str]]:
    """The speakers that a query names, each with the words that do. "Note:" before one message is nobody."""
    counts = Counter(line.speaker for line in lines)
    enough = max(_LEAST, _SHARE * counts.total())
    asked = {word.casefold() for word in words}
    speakers = (speaker for speaker, count in counts.items() if speaker and count >= enough)
    named = {
        speaker: asked & {word.casefold() for word in parse_query(speaker).words} for speaker in speakers
    }
    return {speaker: frozenset(by) for speaker, by in named.items() if by}


def line(row: sqlite3.Row) -> Line:
    """Of a row that `LINE_COLUMNS` gave."""
    return Line(
        row["key"],
        row["conversation"],
        row["seq"],
        row["role"],
        row["tokens"],
        row["said_at"],
        speaker_of(row["opening"], row["rest"]),
    )


LINE_COLUMNS = (
    f"key, conversation, seq, role, tokens, said_at, substr(content, 1, {OPENING}) AS opening, rest"
)
