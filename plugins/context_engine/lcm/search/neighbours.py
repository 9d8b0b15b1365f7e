"""What was said right before and after a hit."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from .request import Hit


def with_neighbours(connection: sqlite3.Connection, hits: Sequence[Hit], reach: int) -> list[Hit]:
    """Each hit, then what is around it; nothing twice."""
    if not reach:
        return list(hits)
    found: dict[int, Hit] = {hit.key: hit for hit in hits}
    order: dict[int, Hit] = {}
    for hit in hits:
        order.setdefault(hit.key, hit)
        rows = connection.execute(
            "SELECT key, seq, said_at FROM messages WHERE conversation = ? AND seq BETWEEN ? AND ? ORDER BY seq",
            (hit.conversation, hit.seq - reach, hit.seq + reach),
        )
        for key, seq, said_at in rows:
            order.setdefault(key, found.get(key) or Hit(key, hit.conversation, seq, said_at, 0.0))
    return list(order.values())
