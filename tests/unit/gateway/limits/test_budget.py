"""The daily budget: what counts, when it is used up, and what is said then."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from agent.errors import BudgetReached
from agent.llm import Usage
from agent.store import Address, Conversation
from gateway.config.schema import LimitsConfig
from gateway.limits import DailyBudget, Day, format_duration, format_usd
from gateway.store.sqlite.store import SqliteStore
from tests.support.stores import temporary_store

ANNA, BOB = "telegram:1", "telegram:2"


@dataclass
class SpendingRecords:
    """A budget and the store behind it. Its calendar is ahead of the real one by `ahead` seconds."""

    store: SqliteStore
    conversation: Conversation
    ahead: float = 0.0

    def budget(self, **limits: Any) -> DailyBudget:
        return DailyBudget(
            LimitsConfig(**limits), self.store.sessions, clock=lambda: time.time() + self.ahead
        )

    async def spend(self, spender: str, usd: float | None, tokens: int = 1_000) -> None:
        usage = Usage(tokens, cost_usd=usd)
        await self.store.sessions.record_usage(
            self.conversation.live_session_id, usage, model="m", spender=spender
        )


@pytest.fixture
async def books() -> SpendingRecords:
    store = await temporary_store()
    return SpendingRecords(
        store, await store.sessions.open_conversation(Address("telegram", "1"), person=ANNA)
    )


@pytest.fixture
def in_zone() -> Iterator[Callable[[str], None]]:
    """The clock on the wall of another place."""
    before = os.environ.get("TZ")

    def move(zone: str) -> None:
        os.environ["TZ"] = zone
        time.tzset()

    yield move
    os.environ.pop("TZ", None)
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


async def test_without_caps_nothing_is_asked_of_the_store(books: SpendingRecords) -> None:
    """An unset budget costs nothing."""
    store = books.store
    budget = DailyBudget(LimitsConfig(), store.sessions, clock=time.time)
    await books.spend(ANNA, 1_000_000.0)
    await budget.check(ANNA)
    assert not budget.has_caps


async def test_a_person_at_their_cap_is_refused_and_others_are_not(books: SpendingRecords) -> None:
    """And the sentence says how much it was, whose it is and when it goes on."""
    budget = books.budget(daily_usd_per_person=1.0)
    await books.spend(ANNA, 0.99)
    await budget.check(ANNA)
    await books.spend(ANNA, 0.03)
    with pytest.raises(BudgetReached, match=r"You have spent \$1\.02 of \$1\.00 today") as refused:
        await budget.check(ANNA)
    sentence = str(refused.value)
    assert "`limits.daily_usd_per_person`" in sentence and "Finished steps are kept" in sentence
    left = format_duration(Day.of(time.time()).end - time.time())
    assert f"in {left}, at midnight" in sentence
    await budget.check(BOB)


async def test_everybody_together_has_a_cap_as_well(books: SpendingRecords) -> None:
    """Spending without a person counts there, too."""
    budget = books.budget(daily_usd_per_person=1.0, daily_usd_total=1.5)
    await books.spend(ANNA, 0.6)
    await books.spend(BOB, 0.6)
    await books.spend("", 0.2)
    await budget.check(ANNA)
    await books.spend("", 0.1)
    for spender in (ANNA, BOB, ""):
        with pytest.raises(BudgetReached, match=r"All people together have spent \$1\.50 of \$1\.50"):
            await budget.check(spender)


async def test_it_is_free_again_at_midnight(books: SpendingRecords) -> None:
    """By the clock of the machine, at any hour."""
    budget = books.budget(daily_usd_per_person=1.0)
    await books.spend(ANNA, 2.0)
    left = Day.of(time.time()).end - time.time()
    books.ahead = left - 1
    with pytest.raises(BudgetReached, match="resets in 1 min"):
        await budget.check(ANNA)
    books.ahead = left + 1
    await budget.check(ANNA)
    assert (await budget.of_person(ANNA)).usd == 0


async def test_an_unknown_price_is_assumed(books: SpendingRecords) -> None:
    """Otherwise a model without a price would have no cap."""
    budget = books.budget(daily_usd_per_person=1.0, unknown_price=10.0)
    await books.spend(ANNA, 0.50)
    await books.spend(ANNA, None, tokens=30_000)
    spending = await budget.of_person(ANNA)
    assert (spending.reported, spending.unknown_calls) == (0.50, 1)
    assert spending.assumed == pytest.approx(0.30) and spending.left == pytest.approx(0.20)
    await books.spend(ANNA, None, tokens=20_000)
    with pytest.raises(BudgetReached, match=r"\$1\.00 of \$1\.00 today, \$0\.50 of it assumed"):
        await budget.check(ANNA)


async def test_a_call_that_tells_nothing_counts_all_the_same(books: SpendingRecords) -> None:
    """Neither tokens nor a price: it is taken for a small one."""
    budget = books.budget(daily_usd_total=1.0)
    for _ in range(100):
        await books.spend(ANNA, None, tokens=0)
    with pytest.raises(BudgetReached):
        await budget.check(ANNA)


async def test_the_owner_can_say_that_unknown_means_free(books: SpendingRecords) -> None:
    """For a server of one's own that is not on this machine."""
    budget = books.budget(daily_usd_per_person=0.01, unknown_price=0)
    await books.spend(ANNA, None, tokens=10_000_000)
    await budget.check(ANNA)


async def test_free_models_are_free(books: SpendingRecords) -> None:
    """A price of nothing is a price."""
    budget = books.budget(daily_usd_per_person=0.01)
    await books.spend(ANNA, 0.0, tokens=10_000_000)
    await budget.check(ANNA)


async def test_a_stopped_call_counts_at_the_price_of_its_model(books: SpendingRecords) -> None:
    """As its last call has told it; before that, as an unknown one."""
    budget = books.budget(daily_usd_per_person=1.0, daily_usd_total=2.0, unknown_price=10.0)
    budget.note_abandoned(ANNA, "dear", 10_000)
    assert (await budget.of_person(ANNA)).assumed == pytest.approx(0.10)
    budget.note_price("dear", Usage(1_000, 1_000, cost_usd=0.10))
    budget.note_price("local", Usage(1_000, 1_000, cost_usd=0.0))
    budget.note_abandoned(ANNA, "local", 10_000_000)
    await budget.check(ANNA)
    budget.note_abandoned(ANNA, "dear", 18_000)
    assert (await budget.of_person(ANNA)).unknown_calls == 3
    with pytest.raises(BudgetReached):
        await budget.check(ANNA)
    assert (await budget.of_everybody()).assumed == pytest.approx(1.0)
    await budget.check(BOB)
    books.ahead = 86_400
    await budget.check(ANNA)


@pytest.mark.parametrize(
    ("zone", "now", "hours"),
    [
        ("UTC", datetime(2026, 11, 16, 23, 59, 59), 24),
        ("Europe/Berlin", datetime(2026, 3, 29, 12), 23),
        ("Europe/Berlin", datetime(2026, 10, 25, 12), 25),
        ("Asia/Kathmandu", datetime(2026, 6, 1, 0, 0), 24),
    ],
)
def test_a_day_is_what_the_calendar_says(
    in_zone: Callable[[str], None], zone: str, now: datetime, hours: int
) -> None:
    """From midnight to midnight of the machine's own zone, also where the clocks are changed."""
    in_zone(zone)
    day = Day.of(now.timestamp())
    assert day.end - day.start == hours * 3600
    assert datetime.fromtimestamp(day.start) == now.replace(hour=0, minute=0, second=0)
    assert Day.of(day.end).start == day.end and Day.of(day.end - 1) == day


def test_amounts_and_times_can_be_read() -> None:
    """Cents, and less than ten of them exactly."""
    assert [format_usd(usd) for usd in (0, 0.0042, 0.1, 1, 1234.5)] == [
        "$0.00",
        "$0.0042",
        "$0.10",
        "$1.00",
        "$1,234.50",
    ]
    assert [format_duration(seconds) for seconds in (0, 90, 3600, 86_000)] == [
        "1 min",
        "2 min",
        "1 h 0 min",
        "23 h 53 min",
    ]
