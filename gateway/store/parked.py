"""What Hermes has given up on: messages that could not be answered and replies that could not be delivered."""

from __future__ import annotations

import json
import sqlite3

from gateway.inbox import Parked

_MESSAGES = "SELECT 'message', id, platform, place, received_at, reason FROM inbox WHERE state = 'parked' ORDER BY seq"
_REPLIES = (
    "SELECT 'reply', id, platform, place, created_at, reason FROM outbox WHERE state = 'parked' ORDER BY seq"
)


def parked(connection: sqlite3.Connection) -> list[Parked]:
    """Messages first; each in the order in which they came."""
    return [*parked_messages(connection), *_listed(connection, _REPLIES)]


def parked_messages(connection: sqlite3.Connection) -> list[Parked]:
    return _listed(connection, _MESSAGES)


def _listed(connection: sqlite3.Connection, query: str) -> list[Parked]:
    return [
        Parked(kind, row_id, platform, _chat_in(place), since, reason)
        for kind, row_id, platform, place, since, reason in connection.execute(query)
    ]


def _chat_in(place: str | None) -> str:
    return str(json.loads(place).get("chat_id", "")) if place else ""
