# ruff: noqa: S608 - only our own columns are put into the SQL; values are always bound
"""What an operator asks: `gateway.insight.Insight` in the store's database."""

from __future__ import annotations

import sqlite3
import time
from datetime import date

from gateway.insight import GivenUp, Spending, Standing
from gateway.limits.day import Day
from gateway.store.insight_conversations import StoredConversations
from gateway.store.parked import given_up
from gateway.store.people import Run

_SUMS = """
    count(*), sum(prompt_tokens), sum(completion_tokens), sum(cache_read_tokens), sum(cache_write_tokens),
    coalesce(sum(cost_usd), 0.0), count(*) - count(cost_usd)
"""


class StoredInsight:
    """Every question is answered by one of the store's readers."""

    def __init__(self, read: Run) -> None:
        self._read = read
        self.conversations = StoredConversations(read)

    async def spending(self, *, since: float) -> list[Spending]:
        return await self._read(_spending, since)

    async def spending_by_day(self, *, since: float) -> list[Spending]:
        return await self._read(_spending_by_day, since)

    async def spending_by_person(self, *, since: float) -> list[Spending]:
        return await self._read(_spending_by_person, since)

    async def standing(self, *, since: float) -> Standing:
        return await self._read(_standing, since)

    async def given_up(self, *, limit: int) -> list[GivenUp]:
        return await self._read(given_up, limit)


def _spending(connection: sqlite3.Connection, since: float) -> list[Spending]:
    rows = connection.execute(
        f"""
        SELECT date(created_at, 'unixepoch', 'localtime') AS day, spender, model, {_SUMS}
        FROM model_calls WHERE created_at >= ?
        GROUP BY day, spender, model ORDER BY day, spender, model
        """,
        (since,),
    )
    return [Spending(*row) for row in rows]


def _spending_by_day(connection: sqlite3.Connection, since: float) -> list[Spending]:
    """Day by day, because the database would have to ask the calendar about every single call."""
    found: list[Spending] = []
    day, now = Day.of(since), time.time()
    while day.begins <= now:
        rows = connection.execute(
            f"""
            SELECT model, {_SUMS} FROM model_calls WHERE created_at >= ? AND created_at < ?
            GROUP BY model ORDER BY model
            """,
            (max(since, day.begins), day.ends),
        )
        name = date.fromtimestamp(day.begins).isoformat()
        found += [Spending(name, "", *row) for row in rows]
        day = Day.of(day.ends)
    return found


def _spending_by_person(connection: sqlite3.Connection, since: float) -> list[Spending]:
    rows = connection.execute(
        f"""
        SELECT '', spender, model, {_SUMS} FROM model_calls INDEXED BY model_calls_created WHERE created_at >= ?
        GROUP BY spender, model
        """,
        (since,),
    )
    return [Spending(*row) for row in rows]


def _standing(connection: sqlite3.Connection, since: float) -> Standing:
    """Each count has an index of its own that holds only what is counted."""
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
    return Standing(*row)
