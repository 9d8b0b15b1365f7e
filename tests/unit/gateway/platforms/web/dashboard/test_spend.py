"""What was spent, as it is shown."""

from __future__ import annotations

import re
import sqlite3
import time
from datetime import date

import pytest

from agent.llm import Usage
from agent.store import Address
from gateway.models.catalog import cache_savings
from gateway.platforms.web.dashboard.charts import element, linear, nice_ticks
from tests.support.dashboard_harness import SCRIPT, DashboardHarness

CLAUDE = "anthropic/claude-sonnet-4-5"
CALL = Usage(10_000, 500, 8_000, 1_000, 0.05)


async def spend(dashboard: DashboardHarness, *calls: tuple[str, str, Usage]) -> None:
    conversation = await dashboard.store.sessions.open_conversation(Address("web", "desk"), person="owner")
    for model, person, usage in calls:
        await dashboard.store.sessions.record_usage(
            conversation.live_session_id, usage, model=model, spender=person
        )


async def test_nothing_was_spent(dashboard: DashboardHarness) -> None:
    """Says so, in words."""
    assert "There were no model calls" in await dashboard.page("/dashboard/spend")


async def test_every_figure(dashboard: DashboardHarness) -> None:
    """Per day, person and model, in tables and in the picture."""
    await spend(
        dashboard, (CLAUDE, "telegram:1", CALL), (CLAUDE, "telegram:2", CALL), ("x/unknown", "", CALL)
    )
    page = await dashboard.page("/dashboard/spend?days=7")
    for text in (
        "telegram:1",
        "telegram:2",
        "unknown",
        CLAUDE,
        "x/unknown",
        "10,000",
        "8,000",
        "20,000",
    ):
        assert text in page, text
    assert date.today().isoformat() in page
    assert page.count('role="img"') == 2
    assert "<title" in page and "<desc" in page
    assert "are excluded" in page


async def test_what_is_added_up_is_what_was_recorded(dashboard: DashboardHarness) -> None:
    """No call is counted twice or left out, by whomever it was made."""
    calls = (CLAUDE, "telegram:1", CALL), (CLAUDE, "", CALL), ("x/y", "telegram:1", Usage(3, 4))
    await spend(dashboard, *calls, *calls)
    added = await dashboard.store.reports.spending(since=time.time(), by=["day", "person", "model"])
    assert [(each.person, each.model, each.calls) for each in added] == [
        ("", CLAUDE, 2),
        ("telegram:1", CLAUDE, 2),
        ("telegram:1", "x/y", 2),
    ]
    by_day = await dashboard.store.reports.spending(since=time.time(), by=["day", "model"])
    assert [(each.person, each.model, each.calls) for each in by_day] == [("", CLAUDE, 4), ("", "x/y", 2)]
    by_person = await dashboard.store.reports.spending(since=time.time(), by=["person", "model"])
    assert [(each.day, each.person, each.calls) for each in by_person] == [
        ("", "", 2),
        ("", "telegram:1", 2),
        ("", "telegram:1", 2),
    ]
    everything = await dashboard.store.sessions.usage()
    for name in ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens"):
        assert sum(getattr(each, name) for each in added) == getattr(everything, name)
    assert sum(each.usd for each in added) == pytest.approx(everything.cost_usd or 0.0)
    assert await dashboard.store.reports.spending(since=time.time() + 86_400, by=["day"]) == []


async def test_a_price_that_nobody_knows(dashboard: DashboardHarness) -> None:
    """Is called unknown, not nothing."""
    await spend(dashboard, ("x/unknown", "owner", Usage(100, 10)))
    page = await dashboard.page("/dashboard/spend")
    assert "unknown" in page and "excluding 1 call of unknown price" in page


async def test_names_are_text(dashboard: DashboardHarness) -> None:
    """A model and a person may be called anything, also in the picture."""
    await spend(dashboard, (SCRIPT, SCRIPT, CALL))
    page = await dashboard.page("/dashboard/spend")
    assert "alert" in page and "<script>alert" not in page and "<img src=x" not in page


async def test_older_days_are_left_out(dashboard: DashboardHarness) -> None:
    """Only so many days are looked at."""
    await spend(dashboard, (CLAUDE, "owner", CALL))
    await dashboard.store.database.write(_long_ago, fence=None)
    assert "There were no model calls" in await dashboard.page("/dashboard/spend?days=7")
    assert "10,000" in await dashboard.page("/dashboard/spend?days=30")


def _long_ago(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE spending SET day = date('now', 'localtime', '-20 days')")


async def test_days_that_are_no_number(dashboard: DashboardHarness) -> None:
    """Are refused in a sentence."""
    for days in ("0", "-1", "x", "1e3", "9" * 5_000, "%00", "<script>"):
        status, page = await dashboard.get(f"/dashboard/spend?days={days}")
        assert status == 400 and "must be a whole number" in page, days


async def test_very_many_days(dashboard: DashboardHarness) -> None:
    """Are a year."""
    await spend(dashboard, (CLAUDE, "owner", CALL))
    page = await dashboard.page("/dashboard/spend?days=999999999")
    assert "in 366 days" in page


def test_what_the_cache_saved() -> None:
    """By list prices: 0.30 instead of 3 dollars for what was read, 3.75 for what was written."""
    saved = cache_savings(CLAUDE, CALL)
    assert saved.usd == pytest.approx((8_000 * 2.7 - 1_000 * 0.75) / 1e6)
    assert saved.without == pytest.approx((10_000 * 3 + 500 * 15) / 1e6)
    assert cache_savings("x/unknown", CALL).unknown_tokens == 8_000
    assert (saved + cache_savings("x/unknown", CALL)).share == saved.share
    assert cache_savings("embedded/smollm2", Usage(10, 10)).share is None


@pytest.mark.parametrize(
    ("maximum", "ticks"),
    [
        (0, [0, 1]),
        (-1, [0, 1]),
        (float("inf"), [0, 1]),
        (5, [0, 1, 2, 3, 4, 5]),
        (1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (7, [0, 2, 4, 6, 8]),
        (130_000, [0, 50_000, 100_000, 150_000]),
        (0.0042, [0, 0.001, 0.002, 0.003, 0.004, 0.005]),
    ],
)
def test_ticks(maximum: float, ticks: list[float]) -> None:
    """Round numbers up to the first that is high enough."""
    assert nice_ticks(maximum) == pytest.approx(ticks)


def test_scales_and_elements() -> None:
    """A scale may run downwards; text and attributes are escaped, drawings inside drawings are not."""
    assert linear((0, 10), (100, 0))(2.5) == 75
    assert linear((3, 3), (100, 0))(3) == 100
    inner = element("title", SCRIPT)
    assert "<script>" not in inner
    outer = element("rect", inner, x=1.25, width=3.0, class_="a", data_name='"', y=None)
    assert re.fullmatch(
        r'<rect x="1\.2" width="3" class="a" data-name="&#34;"><title>.*</title></rect>', outer
    )
