# ruff: noqa: S608 - only our own lists of columns are put into the SQL; values are always bound
"""`Reports` in SQLite: spending, queues, parked items and the summary of `hermes status`."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from gateway.store.reports import (
    GroupBy,
    LastCompaction,
    ParkedDetail,
    QueueStatus,
    Spending,
    StoreSummary,
    UsageToday,
)
from gateway.store.sqlite.conversation_reports import SqliteConversationReports
from gateway.store.sqlite.database import Database
from gateway.store.sqlite.queue_status import parked_details


class SqliteReports:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.conversations = SqliteConversationReports(database)

    async def spending(self, *, since: float, by: Sequence[GroupBy]) -> list[Spending]:
        return await self._database.read(_spending, since, by)

    async def queue_status(self, *, since: float) -> QueueStatus:
        return await self._database.read(_queue_status, since)

    async def parked(self, *, limit: int) -> list[ParkedDetail]:
        return await self._database.read(parked_details, limit)

    async def summary(self, *, midnight: float) -> StoreSummary:
        return await self._database.read(_summary, self._database.path, midnight)


_SPENDING_COLUMNS = {"day": "day", "person": "spender", "model": "model"}


def _spending(connection: sqlite3.Connection, since: float, by: Sequence[GroupBy]) -> list[Spending]:
    """There is a row per day, person and model: they are added up as calls are recorded."""
    columns = [column if name in by else "''" for name, column in _SPENDING_COLUMNS.items()]
    rows = connection.execute(
        f"""
        SELECT {", ".join(columns)}, sum(calls), sum(prompt_tokens), sum(completion_tokens), sum(cache_read_tokens),
            sum(cache_write_tokens), sum(cost_usd), sum(unpriced_calls)
        FROM spending WHERE day >= date(?, 'unixepoch', 'localtime')
        GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
        """,
        (since,),
    )
    return [Spending(*row) for row in rows]


def _queue_status(connection: sqlite3.Connection, since: float) -> QueueStatus:
    """Count waiting and parked items; each count has a partial index."""
    row = connection.execute(
        """
        SELECT
            (SELECT count(*) FROM inbox WHERE state = 'waiting'),
            (SELECT min(received_at) FROM inbox WHERE state = 'waiting'),
            (SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending')),
            (SELECT count(*) FROM inbox WHERE state = 'parked'),
            (SELECT count(*) FROM outbox WHERE state = 'parked'),
            count(*), coalesce(sum(max(tokens_before - tokens_after, 0)), 0)
        FROM compactions WHERE created_at >= ?
        """,
        (since,),
    ).fetchone()
    return QueueStatus(*row)


def _summary(connection: sqlite3.Connection, path: Path, midnight: float) -> StoreSummary:
    wal = path.with_name(f"{path.name}-wal")
    return StoreSummary(
        conversations=_count(connection, "SELECT count(*) FROM conversations"),
        waiting=_count(connection, "SELECT count(*) FROM inbox WHERE state = 'waiting'"),
        parked=_count(connection, "SELECT count(*) FROM inbox WHERE state = 'parked'")
        + _count(connection, "SELECT count(*) FROM outbox WHERE state = 'parked'"),
        today=_today(connection, midnight),
        last_compaction=_last_compaction(connection),
        bytes=sum(file.stat().st_size for file in (path, wal) if file.exists()),
    )


def _count(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def _today(connection: sqlite3.Connection, midnight: float) -> UsageToday:
    row = connection.execute(
        """
        SELECT count(*), coalesce(sum(prompt_tokens), 0), coalesce(sum(cache_read_tokens), 0),
            coalesce(sum(completion_tokens), 0), coalesce(sum(cost_usd), 0.0), count(*) - count(cost_usd)
        FROM model_calls WHERE created_at >= ?
        """,
        (midnight,),
    ).fetchone()
    return UsageToday(*row)


def _last_compaction(connection: sqlite3.Connection) -> LastCompaction | None:
    row = connection.execute(
        """
        SELECT compactions.created_at, conversation_id, trigger, compactions.engine, tokens_before, tokens_after
        FROM compactions JOIN sessions ON sessions.id = session_id
        ORDER BY compactions.seq DESC LIMIT 1
        """
    ).fetchone()
    return LastCompaction(*row) if row else None
