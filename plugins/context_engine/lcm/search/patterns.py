# ruff: noqa: S608 - only question marks are put into the SQL
"""Messages that a regular expression matches, newest first. Bounded, for a pattern may take as long as it likes."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Sequence

import regex  # type: ignore[import-untyped]

from ..messages import Stored, messages_by_key, searchable
from .request import BadRequest, Found, Hit, Request

SECONDS = 2.0
"""For all messages together."""
_ONE_MESSAGE = 0.5
_MOST_HITS = 1_000
_LONGEST_PATTERN = 500
_LONGEST_TEXT = 200_000
_MOST_REPEATED = 1_000
_AT_ONCE = 500
_COUNTS = re.compile(r"\{(\d*),?(\d*)\}")


def matching(
    connection: sqlite3.Connection,
    conversations: Sequence[int],
    request: Request,
    seconds: float = SECONDS,
) -> Found:
    pattern = _compiled(request.text)
    deadline = time.monotonic() + seconds
    hits: list[Hit] = []
    for message, conversation in _newest_first(connection, conversations):
        left = deadline - time.monotonic()
        if left <= 0:
            return Found(hits, stopped_at=message.said_at)
        if request.admits(message.role, message.said_at) and _fits(pattern, message, left):
            if len(hits) == _MOST_HITS:
                return Found(hits, more=True)
            hits.append(Hit(message.key, conversation, message.seq, message.said_at, 1.0))
    return Found(hits)


def _newest_first(
    connection: sqlite3.Connection, conversations: Sequence[int]
) -> Iterator[tuple[Stored, int]]:
    """With the conversation. Only numbers are held of those that nobody gets to."""
    rows = connection.execute(
        f"SELECT key, conversation FROM messages WHERE conversation IN ({', '.join('?' * len(conversations))}) "
        "AND NOT echo",
        conversations,
    )
    newest = sorted(map(tuple, rows), reverse=True)
    for start in range(0, len(newest), _AT_ONCE):
        some = newest[start : start + _AT_ONCE]
        messages = messages_by_key(connection, [key for key, _ in some])
        yield from ((messages[key], conversation) for key, conversation in some)


def _fits(pattern: regex.Pattern[str], message: Stored, seconds: float) -> bool:
    text = searchable(message.chat)[:_LONGEST_TEXT]
    try:
        return pattern.search(text, timeout=min(seconds, _ONE_MESSAGE), concurrent=True) is not None
    except TimeoutError:
        raise BadRequest(
            f"The pattern takes too long (at {message.id}). Avoid nested repeats like (a+)+, or search for a word in "
            "it with mode `natural`."
        ) from None


def _compiled(text: str) -> regex.Pattern[str]:
    """Case counts only if the pattern says so with (?-i:...)."""
    if len(text) > _LONGEST_PATTERN:
        raise BadRequest(f"The pattern is longer than {_LONGEST_PATTERN} characters.")
    repeated = 1
    for least, most in _COUNTS.findall(text):
        repeated *= max(1, int(least or 0), int(most or 0))
    if repeated > _MOST_REPEATED:
        raise BadRequest(
            f"The pattern repeats things more than {_MOST_REPEATED:,} times. Use smaller counts."
        )
    try:
        return regex.compile(text, regex.IGNORECASE | regex.MULTILINE)
    except (regex.error, OverflowError, RecursionError) as error:
        raise BadRequest(
            f"{text[:60]!r} is no regular expression: {error}. Write a backslash before characters that you mean."
        ) from None
