"""How many messages and replies are under way: asked often, so only of what an index lists."""

from __future__ import annotations

import sqlite3

Counts = dict[tuple[str, str], int]
"""By platform and state."""


def in_inbox(connection: sqlite3.Connection) -> Counts:
    return _counted(
        connection.execute(
            """
            SELECT platform, 'waiting', count(*) FROM inbox WHERE state = 'waiting' GROUP BY platform
            UNION ALL
            SELECT platform, 'parked', count(*) FROM inbox WHERE state = 'parked' GROUP BY platform
            """
        )
    )


def in_outbox(connection: sqlite3.Connection) -> Counts:
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


def try_to_write(connection: sqlite3.Connection) -> None:
    """A row is written as it is: a full disk or a read-only file shows only then."""
    connection.execute("UPDATE index_progress SET seq = seq")


def _counted(rows: sqlite3.Cursor) -> Counts:
    return {(platform, state): count for platform, state, count in rows}
