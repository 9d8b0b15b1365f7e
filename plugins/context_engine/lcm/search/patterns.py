# ruff: noqa: S608 - only question marks are put into the SQL
"""Messages that a regular expression matches, newest first. Bounded, for a pattern may take as long as it likes."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Sequence

import regex

from ..messages import searchable, stored
from .request import BadRequest, Found, Hit, Request

SECONDS = 2.0
"""For all messages together."""
_ONE_MESSAGE = 0.5
_MOST_HITS = 1_000
_LONGEST_PATTERN = 500
_LONGEST_TEXT = 200_000
_MOST_REPEATED = 1_000
_COUNTS = re.compile(r"\{(\d*),?(\d*)\}")


def matching(
    connection: sqlite3.Connection,
    conversations: Sequence[int],
    request: Request,
    seconds: float = SECONDS,
) -> Found:
    pattern = _compiled(request.text)
    rows = connection.execute(
        f"SELECT * FROM messages WHERE conversation IN ({', '.join('?' * len(conversations))}) ORDER BY key DESC",
        conversations,
    )
    deadline = time.monotonic() + seconds
    hits: list[Hit] = []
    looked_at: float | None = None
    for row in rows:
        left = deadline - time.monotonic()
        if left <= 0:
            return Found(hits, stopped_at=looked_at)
        looked_at = row["said_at"]
        if not request.admits(row["role"], looked_at):
            continue
        try:
            found = pattern.search(
                searchable(stored(row).chat)[:_LONGEST_TEXT], timeout=min(left, _ONE_MESSAGE), concurrent=True
            )
        except TimeoutError:
            raise BadRequest(
                f"The pattern takes too long (at m{row['seq']}). Avoid nested repeats like (a+)+, or search for a "
                "word in it with mode `natural`."
            ) from None
        if found:
            if len(hits) == _MOST_HITS:
                return Found(hits, more=True)
            hits.append(Hit(row["key"], row["conversation"], row["seq"], row["said_at"], 1.0))
    return Found(hits)


def _compiled(text: str) -> regex.Pattern[str]:
    """Case counts only if the pattern says so with (?-i:...)."""
    if len(text) > _LONGEST_PATTERN:
        raise BadRequest(f"The pattern is longer than {_LONGEST_PATTERN} characters.")
    repeated = 1
    for least, most in _COUNTS.findall(text):
        repeated *= max(1, int(least or 0), int(most or 0))
    if repeated > _MOST_REPEATED:
        raise BadRequest(f"The pattern repeats things more than {_MOST_REPEATED:,} times. Use smaller counts.")
    try:
        return regex.compile(text, regex.IGNORECASE | regex.MULTILINE)
    except (regex.error, OverflowError, RecursionError) as error:
        raise BadRequest(
            f"{text[:60]!r} is no regular expression: {error}. Write a backslash before characters that you mean."
        ) from None
