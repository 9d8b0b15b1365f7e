"""`/usage`: what was spent today, by whom it may be seen, and what is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.types import OWNER
from tests.support.limits_harness import ANNA, BOB, GROUP, BudgetHarness, costs, open_budget, text_of


async def _usage(harness: BudgetHarness, person: str = ANNA, **more: Any) -> list[str]:
    """The lines about today."""
    told = "\n".join(map(text_of, await harness.say("/usage", person, **more)))
    return [line for line in told.splitlines() if "today" in line]


async def test_a_person_sees_their_own(tmp_path: Path) -> None:
    """And how much of the cap is left; not what others spend."""
    async with open_budget(
        tmp_path, costs(0.42), costs(2.0), daily_usd_per_person=1.0, daily_usd_total=5.0
    ) as harness:
        await harness.say("hi")
        await harness.say("hi", BOB)
        assert await _usage(harness) == ["You today: $0.42; $0.58 of $1.00 left until midnight"]
        assert await _usage(harness, BOB) == ["You today: $2.00; $0.00 of $1.00 left until midnight"]


async def test_the_owner_and_admins_see_everybody(tmp_path: Path) -> None:
    """But not where a group reads along."""
    async with open_budget(tmp_path, costs(0.42), costs(2.0), daily_usd_total=5.0) as harness:
        await harness.say("hi")
        await harness.say("hi", BOB)
        everybody = "Everybody today: $2.42; $2.58 of $5.00 left until midnight"
        assert await _usage(harness, ANNA, is_admin=True) == ["You today: $0.42; no daily limit", everybody]
        assert await _usage(harness, OWNER) == ["You today: $0.00; no daily limit", everybody]
        assert await _usage(harness, ANNA, address=GROUP, is_admin=True, group="-100") == [
            "You today: $0.42; no daily limit"
        ]


async def test_unknown_prices_are_said_plainly(tmp_path: Path) -> None:
    """How many calls have none, and what they are taken for where there is a cap."""
    async with open_budget(
        tmp_path, costs(0.30), costs(None, tokens=9_990), costs(None, tokens=1_990)
    ) as harness:
        await harness.say("hi")
        await harness.say("hi")
        assert await _usage(harness) == ["You today: $0.30 plus 1 call of unknown price; no daily limit"]
        await harness.say("/reset")
        await harness.say("hi")
        assert await _usage(harness) == ["You today: $0.30 plus 2 calls of unknown price; no daily limit"]

    steps = costs(0.30), costs(None, tokens=1_990), costs(None, tokens=9_990)
    async with open_budget(tmp_path, *steps, daily_usd_per_person=1.0, unknown_price=10) as harness:
        for _ in steps:
            await harness.say("hi")
        assert await _usage(harness) == [
            "You today: $0.30 plus 2 calls of unknown price, counted as $0.12; $0.58 of $1.00 left until midnight"
        ]


async def test_tomorrow_it_begins_anew(tmp_path: Path) -> None:
    """The conversation's own sum stays."""
    async with open_budget(tmp_path, costs(0.42), daily_usd_per_person=1.0) as harness:
        await harness.say("hi")
        harness.ahead[0] = 86_400
        assert await _usage(harness) == ["You today: $0.00; $1.00 of $1.00 left until midnight"]
        assert "out, $0.4200" in "\n".join(map(text_of, await harness.say("/usage")))
