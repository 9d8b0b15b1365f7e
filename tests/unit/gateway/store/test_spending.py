"""Contract: model costs, per person and in total."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from agent.llm import Usage
from agent.store import Conversation, SessionStore, Spent
from gateway.store.sql.writes import record_usage
from gateway.store.sqlite.migrate import load_migrations, migrate


async def test_costs_are_counted_for_whoever_asked(store: SessionStore, conversation: Conversation) -> None:
    """In every conversation and for every purpose."""
    session = conversation.live_session_id
    await store.record_usage(session, Usage(10, 2, cost_usd=0.5), model="m", spender="telegram:1")
    await store.record_usage(
        session, Usage(10, 2, cost_usd=0.25), model="m", purpose="compression", spender="telegram:1"
    )
    await store.record_usage(session, Usage(10, 2, cost_usd=2.0), model="m", spender="telegram:12")
    await store.record_usage(session, Usage(10, 2, cost_usd=4.0), model="m")
    assert (await store.spent(spender="telegram:1")).usd == pytest.approx(0.75)
    assert (await store.spent()).usd == pytest.approx(6.75)
    assert await store.spent(spender="telegram:3") == Spent(0.0)


async def test_calls_without_a_price_are_told_apart(store: SessionStore, conversation: Conversation) -> None:
    """Their number and their tokens, so that a price can be assumed; free calls have one."""
    session = conversation.live_session_id
    await store.record_usage(session, Usage(100, 20), model="m", spender="a")
    await store.record_usage(session, Usage(), model="m", spender="a")
    await store.record_usage(session, Usage(1_000, 1_000, cost_usd=0.0), model="m", spender="a")
    await store.record_usage(session, Usage(7, 3, cost_usd=0.5), model="m", spender="b")
    assert await store.spent(spender="a") == Spent(0.0, unpriced_calls=2, unpriced_tokens=120)
    assert await store.spent() == Spent(0.5, unpriced_calls=2, unpriced_tokens=120)


async def test_only_what_came_since_then_counts(store: SessionStore, conversation: Conversation) -> None:
    """A new day begins with nothing spent."""
    await store.record_usage(conversation.live_session_id, Usage(1, 1, cost_usd=0.5), model="m", spender="a")
    assert (await store.spent(spender="a", since=time.time() - 60)).usd == 0.5
    assert await store.spent(spender="a", since=time.time() + 60) == Spent(0.0)
    assert await store.spent(since=time.time() + 60) == Spent(0.0)


def test_calls_of_earlier_days_are_added_up_once(tmp_path: Path) -> None:
    """A database from before there were sums has them after its migration, and counts on from there."""
    with closing(sqlite3.connect(tmp_path / "old.db", isolation_level=None)) as old:
        migrate(old, load_migrations()[:4])
        old.execute("PRAGMA foreign_keys = OFF")
        call = "INSERT INTO model_calls VALUES (?, 's', 'turn', 'm', 100, 10, 50, 5, ?, ?, 'ada')"
        for number, (cost, at) in enumerate([(0.5, 86_400.0), (None, 86_400.0), (0.25, 864_000.0)], start=1):
            old.execute(call, (number, cost, at))
        old.execute("INSERT INTO sessions VALUES (1, 's', 'c', NULL, NULL, '', '', NULL, NULL, 0)")
        old.execute("INSERT INTO conversations VALUES (1, 'c', 'web', '1', '', '', 'ada', 's', 0)")
        migrate(old, load_migrations())
        record_usage(old, "s", Usage(100, 10, 50, 5, 1.0), "m", "turn", "ada", 864_000.0)
        sums = "SELECT calls, prompt_tokens, cache_read_tokens, cost_usd, unpriced_calls FROM spending ORDER BY day"
        assert old.execute(sums).fetchall() == [(2, 200, 100, 0.5, 1), (2, 200, 100, 1.25, 0)]
