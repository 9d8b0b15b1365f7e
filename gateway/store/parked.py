"""What Hermes has given up on: messages that could not be answered and replies that could not be delivered."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Literal

_MESSAGES = (
    "SELECT 'message', platform, place, received_at, reason FROM inbox WHERE state = 'parked' ORDER BY seq"
)
_REPLIES = (
    "SELECT 'reply', platform, place, created_at, reason FROM outbox WHERE state = 'parked' ORDER BY seq"
)


@dataclass(frozen=True, slots=True)
class Parked:
    kind: Literal["message", "reply"]
    """A message to Hermes, or a reply from it."""
    platform: str
    chat_id: str
    since: float
    reason: str


def parked(connection: sqlite3.Connection) -> list[Parked]:
    """Messages first; each in the order in which they came."""
    rows = [*connection.execute(_MESSAGES), *connection.execute(_REPLIES)]
    return [
        Parked(kind, platform, _chat_in(place), since, reason)
        for kind, platform, place, since, reason in rows
    ]


def _chat_in(place: str | None) -> str:
    """Empty where nothing is brought to anybody, as on the page."""
    return str(json.loads(place).get("chat_id", "")) if place else ""
