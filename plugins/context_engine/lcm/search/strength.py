"""How strongly a message reminds of something that was said before."""

from __future__ import annotations

import sqlite3

def strong_matches(connection: sqlite3.Connection, conversation: int, text: str, among: set[int] | None, limit: int) -> list[tuple[int, float]]:
    return []
