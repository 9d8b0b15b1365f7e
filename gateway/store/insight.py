# ruff: noqa: S608 - only our own lists of columns are put into the SQL; values are always bound
"""What an operator asks: `gateway.insight.Insight` in the store's database."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from gateway.insight import By, GivenUp, Spending, Standing
from gateway.store.insight_conversations import StoredConversations
from gateway.store.parked import given_up
from gateway.store.people import Run


class StoredInsight:
    """Every question is answered by one of the store's readers."""

    def __init__(self, read: Run) -> None:
        self._read = read
        self.conversations = StoredConversations(read)

    async def spending(self, *, since: float, by: Sequence[By]) -> list[Spending]:
        return await self._read(spending, since, by)

    async def standing(self, *, since: float) -> Standing:
        return await self._read(_standing, since)

    async def given_up(self, *, limit: int) -> list[GivenUp]:
        return await self._read(given_up, limit)


_SPENDING = {"day": "day", "person": "spender", "model": "model"}


def spending(connection: sqlite3.Connection, since: float, by: Sequence[By]) -> list[Spending]:
    """There is a row per day, person and model: they are added up as calls are recorded."""
    columns = [column if name in by else "''" for name, column in _SPENDING.items()]
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
