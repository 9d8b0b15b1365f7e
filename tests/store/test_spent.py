"""Contract: what models cost, for one person and for everybody."""

from __future__ import annotations

import time

import pytest

from agent.llm import Usage
from agent.store import Conversation, SessionStore, Spent


async def test_costs_are_counted_for_whoever_asked(store: SessionStore, conversation: Conversation) -> None:
    """In whichever conversation, and for whatever purpose."""
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
