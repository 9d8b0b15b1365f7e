"""What an operator asks: `gateway.insight.Insight` in the store's database."""

from __future__ import annotations

import sqlite3

from gateway.insight import Spending
from gateway.store.people import Run


class StoredInsight:
    """Every question is answered by one of the store's readers."""

    def __init__(self, read: Run) -> None:
        self._read = read

    async def spending(self, *, since: float) -> list[Spending]:
        return await self._read(_spending, since)


def _spending(connection: sqlite3.Connection, since: float) -> list[Spending]:
    rows = connection.execute(
        """
        SELECT date(created_at, 'unixepoch', 'localtime') AS day, spender, model, count(*),
            sum(prompt_tokens), sum(completion_tokens), sum(cache_read_tokens), sum(cache_write_tokens),
            coalesce(sum(cost_usd), 0.0), count(*) - count(cost_usd)
        FROM model_calls WHERE created_at >= ?
        GROUP BY day, spender, model ORDER BY day, spender, model
        """,
        (since,),
    )
    return [Spending(*row) for row in rows]
