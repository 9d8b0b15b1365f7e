"""Counts and parked items of the inbox and the outbox."""

from __future__ import annotations

import json
import sqlite3

from gateway.store.reports import ParkedDetail, ParkedItem

_MESSAGES = "SELECT 'message', id, platform, place, received_at, reason FROM inbox WHERE state = 'parked' ORDER BY seq"
_REPLIES = (
    "SELECT 'reply', id, platform, place, created_at, reason FROM outbox WHERE state = 'parked' ORDER BY seq"
)

_LONGEST_TEXT = 500
"""How many characters of a text are returned."""

_DETAILS = """
    SELECT 'message', id, platform, place, received_at AS since, reason,
        substr(CASE json_type(payload, '$.text') WHEN 'text' THEN json_extract(payload, '$.text') ELSE '' END,
            1, :longest)
    FROM (SELECT * FROM inbox WHERE state = 'parked' ORDER BY seq DESC LIMIT :limit)
    UNION ALL
    SELECT 'reply', id, platform, place, created_at, reason,
        substr(coalesce(CASE kind WHEN 'file' THEN iif(json_valid(content), json_extract(content, '$.name'), '')
            ELSE content END, ''), 1, :longest)
    FROM (SELECT * FROM outbox WHERE state = 'parked' ORDER BY seq DESC LIMIT :limit)
    ORDER BY since DESC LIMIT :limit
"""
"""Selects before it reads: thousands of items may be parked, and an open page asks every other second."""


def parked_details(connection: sqlite3.Connection, limit: int) -> list[ParkedDetail]:
    rows = connection.execute(_DETAILS, {"limit": limit, "longest": _LONGEST_TEXT})
    return [
        ParkedDetail(kind, row_id, platform, _chat_in(place), since, reason, str(text))
        for kind, row_id, platform, place, since, reason, text in rows
    ]


def parked(connection: sqlite3.Connection) -> list[ParkedItem]:
    """Return parked messages, then parked replies, each in order."""
    return [*parked_messages(connection), *parked_replies(connection)]


def parked_messages(connection: sqlite3.Connection) -> list[ParkedItem]:
    return _listed(connection, _MESSAGES)


def parked_replies(connection: sqlite3.Connection) -> list[ParkedItem]:
    return _listed(connection, _REPLIES)


def _listed(connection: sqlite3.Connection, query: str) -> list[ParkedItem]:
    return [
        ParkedItem(kind, row_id, platform, _chat_in(place), since, reason)
        for kind, row_id, platform, place, since, reason in connection.execute(query)
    ]


def _chat_in(place: str | None) -> str:
    decoded = json.loads(place) if place else None
    return str(decoded.get("chat_id", "")) if isinstance(decoded, dict) else ""


Counts = dict[tuple[str, str], int]
"""Numbers by platform and state."""


def inbox_counts(connection: sqlite3.Connection) -> Counts:
    return _counted(
        connection.execute(
            """
            SELECT platform, 'waiting', count(*) FROM inbox WHERE state = 'waiting' GROUP BY platform
            UNION ALL
            SELECT platform, 'parked', count(*) FROM inbox WHERE state = 'parked' GROUP BY platform
            """
        )
    )


def outbox_counts(connection: sqlite3.Connection) -> Counts:
    return _counted(
        connection.execute(
            """
            SELECT platform, state, count(*) FROM outbox
            WHERE state IN ('pending', 'sending') GROUP BY platform, state
            UNION ALL
            SELECT platform, 'parked', count(*) FROM outbox WHERE state = 'parked' GROUP BY platform
            """
        )
    )


def _counted(rows: sqlite3.Cursor) -> Counts:
    return {(platform, state): count for platform, state, count in rows}
