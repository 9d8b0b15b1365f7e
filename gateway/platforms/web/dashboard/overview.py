"""The first page: is everything up, what is being worked on, what does it cost today."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from gateway.core.gateway import ActiveTurn
from gateway.limits.budget import Day, duration
from gateway.platforms.web.dashboard.log_event_help import meaning
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.store.reports import Spending

_MOST_TURNS = 20
_MOST_PEOPLE = 10
_NEWEST = 3
_MOST_FAILURES = 5


@dataclass(frozen=True, slots=True)
class Today:
    """All calls since midnight."""

    prompt_tokens: int
    completion_tokens: int
    cached_share: float
    by_person: Sequence[tuple[str, float]]
    """In dollars, who spent most first."""


def routes(house: DashboardContext, frame: PageRenderer) -> list[web.RouteDef]:
    async def gather(request: web.Request) -> dict[str, Any]:
        now = house.metrics.snapshot() if house.metrics else None
        midnight = Day.of(time.time()).begins
        turns = house.gateway.active_turns
        limits = house.loaded.config.limits
        return {
            "platforms": house.platforms,
            "turns": [(turn, lasting(time.time() - turn.since)) for turn in turns[:_MOST_TURNS]],
            "more_turns": max(0, len(turns) - _MOST_TURNS),
            "queued": _queued(turns),
            "standing": await house.insight.queue_status(since=midnight),
            "newest": await house.insight.parked(limit=_NEWEST),
            "today": _today(await house.insight.spending(since=midnight, by=["person"])),
            "spent": await house.gateway.limits.budget.of_everybody(),
            "person_cap": limits.daily_usd_per_person,
            "now": now,
            "failures": [(each, meaning(each.kind)) for each in now.warnings[:_MOST_FAILURES]] if now else [],
            "model": house.model,
        }

    return frame.page("/dashboard", "dashboard/overview.html", gather)


def lasting(seconds: float) -> str:
    return f"{max(0, int(seconds))} s" if seconds < 60 else duration(seconds)


def _queued(turns: Sequence[ActiveTurn]) -> int:
    """Behind what is being answered."""
    return sum(turn.waiting for turn in turns)


def _today(spending: Sequence[Spending]) -> Today:
    prompt = sum(each.prompt_tokens for each in spending)
    cached = sum(each.cache_read_tokens for each in spending)
    by_person: defaultdict[str, float] = defaultdict(float)
    for each in spending:
        by_person[each.person] += each.usd
    return Today(
        prompt,
        sum(each.completion_tokens for each in spending),
        cached / prompt if prompt else 0.0,
        sorted(by_person.items(), key=lambda entry: -entry[1])[:_MOST_PEOPLE],
    )
