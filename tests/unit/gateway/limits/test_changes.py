"""Limits that change while Hermes runs."""

from __future__ import annotations

import pytest

from agent.errors import BudgetReached
from agent.llm import Usage
from agent.store import Address
from gateway.config.schema import LimitsConfig
from gateway.limits import Limits
from gateway.types import OWNER
from tests.support.stores import temporary_store

ADA = "telegram:1"


async def test_how_often_people_may_write() -> None:
    """Fewer, more, or as often as they like; the owner has a number of their own."""
    limits = Limits(LimitsConfig(messages_per_minute=1), (await temporary_store()).sessions)
    assert limits.refusal(ADA) is None and limits.refusal(ADA) is not None
    limits.apply(LimitsConfig(messages_per_minute=2, owner_messages_per_minute=1))
    assert [limits.refusal(ADA) is None for _ in range(3)] == [True, True, False]
    assert [limits.refusal(OWNER) is None for _ in range(2)] == [True, False]
    limits.apply(LimitsConfig(messages_per_minute=None, owner_messages_per_minute=None))
    assert limits.refusal(ADA) is None and limits.refusal(OWNER) is None


async def test_other_settings_open_no_door() -> None:
    """A person who has to wait still has to after another setting changed."""
    limits = Limits(LimitsConfig(messages_per_minute=1), (await temporary_store()).sessions)
    assert limits.refusal(ADA) is None and limits.refusal(ADA) is not None
    limits.apply(LimitsConfig(messages_per_minute=1))
    assert limits.refusal(ADA) is not None


async def test_how_many_may_wait() -> None:
    """In all places that ask."""
    limits = Limits(LimitsConfig(waiting_messages=5), (await temporary_store()).sessions)
    limits.apply(LimitsConfig(waiting_messages=2))
    assert limits.queue_limits.per_person == 2


async def test_what_may_be_spent() -> None:
    """A smaller cap counts what was spent before it."""
    store = await temporary_store()
    limits = Limits(LimitsConfig(daily_usd_per_person=10), store.sessions)
    conversation = await store.sessions.open_conversation(Address("telegram", "1"), person=ADA)
    usage = Usage(10, 10, cost_usd=2.0)
    await store.sessions.record_usage(
        conversation.live_session_id, usage, model="m", purpose="turn", spender=ADA
    )
    await limits.budget.check(ADA)
    limits.apply(LimitsConfig(daily_usd_per_person=1))
    with pytest.raises(BudgetReached):
        await limits.budget.check(ADA)
    limits.apply(LimitsConfig())
    await limits.budget.check(ADA)
