"""The page Overview: platforms, running turns, queues, errors, and the cost of today."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from gateway.core.gateway import ActiveTurn
from gateway.limits.budget import Day, format_duration
from gateway.platforms.web.dashboard.log_event_help import explain
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.store.reports import Spending

_MAX_TURNS = 20
_MAX_PEOPLE = 10
_NEWEST = 3
_MAX_WARNINGS = 5


@dataclass(frozen=True, slots=True)
class Today:
    """Usage since midnight."""

    prompt_tokens: int
    completion_tokens: int
    cached_share: float
    by_person: Sequence[tuple[str, float]]
    """Names and dollars, highest first."""


def routes(context: DashboardContext, page: PageRenderer) -> list[web.RouteDef]:
    async def gather(request: web.Request) -> dict[str, Any]:
        now = context.metrics.snapshot() if context.metrics else None
        midnight = Day.of(time.time()).start
        turns = context.gateway.active_turns
        limits = context.loaded.config.limits
        return {
            "platforms": context.platforms,
            "turns": [(turn, format_age(time.time() - turn.since)) for turn in turns[:_MAX_TURNS]],
            "more_turns": max(0, len(turns) - _MAX_TURNS),
            "queued": _queued(turns),
            "standing": await context.reports.queue_status(since=midnight),
            "newest": await context.reports.parked(limit=_NEWEST),
            "today": _today(await context.reports.spending(since=midnight, by=["person"])),
            "spent": await context.gateway.limits.budget.of_everybody(),
            "person_cap": limits.daily_usd_per_person,
            "now": now,
            "warnings": [(each, explain(each.kind)) for each in now.warnings[:_MAX_WARNINGS]] if now else [],
            "model": context.model,
        }

    return page.live("/dashboard", "dashboard/overview.html", gather)


def format_age(seconds: float) -> str:
    return f"{max(0, int(seconds))} s" if seconds < 60 else format_duration(seconds)


def _queued(turns: Sequence[ActiveTurn]) -> int:
    """Count the messages behind running turns."""
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
        sorted(by_person.items(), key=lambda entry: -entry[1])[:_MAX_PEOPLE],
    )
