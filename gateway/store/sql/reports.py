# ruff: noqa: S608 - only our own lists of columns are put into the SQL; values are always bound
"""`Reports` in SQL: spending, queues, parked items and the summary of `hermes status`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gateway.store.reports import (
    GroupBy,
    LastCompaction,
    ParkedDetail,
    ParkedItem,
    QueueStatus,
    Spending,
    StoreSummary,
    UsageToday,
)
from gateway.store.sql.conversation_reports import SqlConversationReports
from gateway.store.sql.database import Connection, Database, Part, read

_SPENDING_COLUMNS = {"day": "day", "person": "spender", "model": "model"}


def local_day(at: float) -> str:
    """Return the date on the wall at this time, as `spending` stores it."""
    return time.strftime("%Y-%m-%d", time.localtime(at))


def _spending(connection: Connection, *, since: float, by: Sequence[GroupBy]) -> list[Spending]:
    """There is a row per day, person and model: they are added up as calls are recorded."""
    columns = [column if name in by else "''" for name, column in _SPENDING_COLUMNS.items()]
    rows = connection.execute(
        f"""
        SELECT {", ".join(columns)}, sum(calls), sum(prompt_tokens), sum(completion_tokens), sum(cache_read_tokens),
            sum(cache_write_tokens), sum(cost_usd), sum(unpriced_calls)
        FROM spending WHERE day >= ?
        GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
        """,
        (local_day(since),),
    )
    return [Spending(*row) for row in rows]


def _queue_status(connection: Connection, *, since: float) -> QueueStatus:
    """Count waiting and parked items; each count has a partial index."""
    row = connection.execute(
        """
        SELECT
            (SELECT count(*) FROM inbox WHERE state = 'waiting'),
            (SELECT min(received_at) FROM inbox WHERE state = 'waiting'),
            (SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending')),
            (SELECT count(*) FROM inbox WHERE state = 'parked'),
            (SELECT count(*) FROM outbox WHERE state = 'parked'),
            count(*),
            coalesce(sum(tokens_before - tokens_after) FILTER (WHERE tokens_before > tokens_after), 0)
        FROM compactions WHERE created_at >= ?
        """,
        (since,),
    ).fetchone()
    return QueueStatus(*row)


def _summary(connection: Connection, database: Database, midnight: float) -> StoreSummary:
    return StoreSummary(
        conversations=_count(connection, "SELECT count(*) FROM conversations"),
        waiting=_count(connection, "SELECT count(*) FROM inbox WHERE state = 'waiting'"),
        parked=_count(connection, "SELECT count(*) FROM inbox WHERE state = 'parked'")
        + _count(connection, "SELECT count(*) FROM outbox WHERE state = 'parked'"),
        today=_today(connection, midnight),
        last_compaction=_last_compaction(connection),
        bytes=database.size(connection),
    )


def _count(connection: Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def _today(connection: Connection, midnight: float) -> UsageToday:
    row = connection.execute(
        """
        SELECT count(*), coalesce(sum(prompt_tokens), 0), coalesce(sum(cache_read_tokens), 0),
            coalesce(sum(completion_tokens), 0), coalesce(sum(cost_usd), 0.0), count(*) - count(cost_usd)
        FROM model_calls WHERE created_at >= ?
        """,
        (midnight,),
    ).fetchone()
    return UsageToday(*row)


def _last_compaction(connection: Connection) -> LastCompaction | None:
    row = connection.execute(
        """
        SELECT compactions.created_at, conversation_id, trigger, compactions.engine, tokens_before, tokens_after
        FROM compactions JOIN sessions ON sessions.id = session_id
        ORDER BY compactions.seq DESC LIMIT 1
        """
    ).fetchone()
    return LastCompaction(*row) if row else None


# -- parked items and counts

_LONGEST_TEXT = 500
"""How many characters of a text are returned."""

_PARKED_MESSAGES = (
    "SELECT id, platform, place, received_at, reason, payload FROM inbox WHERE state = 'parked'"
)
_PARKED_REPLIES = (
    "SELECT id, platform, place, created_at, reason, content, kind FROM outbox WHERE state = 'parked'"
)


def parked_messages(connection: Connection) -> list[ParkedItem]:
    rows = connection.execute(f"{_PARKED_MESSAGES} ORDER BY seq")
    return [ParkedItem("message", *_parked_from(row)) for row in rows]


def parked_replies(connection: Connection) -> list[ParkedItem]:
    rows = connection.execute(f"{_PARKED_REPLIES} ORDER BY seq")
    return [ParkedItem("reply", *_parked_from(row)) for row in rows]


def parked(connection: Connection) -> list[ParkedItem]:
    """Return parked messages, then parked replies, each in order."""
    return [*parked_messages(connection), *parked_replies(connection)]


def _parked_details(connection: Connection, *, limit: int) -> list[ParkedDetail]:
    """Select before it reads: thousands of items may be parked, and an open page asks every other second."""
    newest = "ORDER BY seq DESC LIMIT ?"
    messages = connection.execute(f"{_PARKED_MESSAGES} {newest}", (limit,)).fetchall()
    replies = connection.execute(f"{_PARKED_REPLIES} {newest}", (limit,)).fetchall()
    details = [
        *(ParkedDetail("message", *_parked_from(row), _field(row[5], "text")) for row in messages),
        *(
            ParkedDetail(
                "reply", *_parked_from(row), _field(row[5], "name") if row[6] == "file" else row[5] or ""
            )
            for row in replies
        ),
    ]
    details.sort(key=lambda item: item.since, reverse=True)
    return [replace(item, text=item.text[:_LONGEST_TEXT]) for item in details[:limit]]


def _parked_from(row: Sequence[Any]) -> tuple[str, str, str, float, str]:
    row_id, platform, place, since, reason, *_ = row
    return row_id, platform, _field(place, "chat_id"), since, reason


def _field(column: str | None, name: str) -> str:
    """Return a text in a JSON object; empty if there is none."""
    try:
        decoded = json.loads(column or "null")
    except (ValueError, RecursionError):
        return ""
    value = decoded.get(name) if isinstance(decoded, dict) else None
    return value if isinstance(value, str) else ""


Counts = dict[tuple[str, str], int]
"""Numbers by platform and state."""


def inbox_counts(connection: Connection) -> Counts:
    rows = connection.execute(
        """
        SELECT platform, 'waiting', count(*) FROM inbox WHERE state = 'waiting' GROUP BY platform
        UNION ALL
        SELECT platform, 'parked', count(*) FROM inbox WHERE state = 'parked' GROUP BY platform
        """
    )
    return {(platform, state): count for platform, state, count in rows}


def outbox_counts(connection: Connection) -> Counts:
    rows = connection.execute(
        """
        SELECT platform, state, count(*) FROM outbox
        WHERE state IN ('pending', 'sending') GROUP BY platform, state
        UNION ALL
        SELECT platform, 'parked', count(*) FROM outbox WHERE state = 'parked' GROUP BY platform
        """
    )
    return {(platform, state): count for platform, state, count in rows}


class SqlReports(Part):
    spending = read(_spending)
    queue_status = read(_queue_status)
    parked = read(_parked_details)

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.conversations = SqlConversationReports(database)

    async def summary(self, *, midnight: float) -> StoreSummary:
        return await self._database.read(_summary, self._database, midnight)
