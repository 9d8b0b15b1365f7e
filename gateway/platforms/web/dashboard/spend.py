"""The page Spend: cost and tokens by day, person and model, and the savings of prompt caching."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from aiohttp import web

from agent.llm import Usage
from gateway.limits import Day, format_usd
from gateway.models.catalog import CacheSavings, cache_savings
from gateway.platforms.web.dashboard.charts import Series, bars
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.platforms.web.request_params import optional_int
from gateway.platforms.web.templating import short_count
from gateway.store.reports import Spending, UsageTotal

_CHOICES = (7, 30, 90, 365)
_DEFAULT_DAYS, _MAX_DAYS = 30, 366
_NAMED_MODELS = 3
"""Models with a colour of their own in the chart; the others share one."""
_MAX_ROWS = 200


@dataclass(slots=True)
class PricedTotal(UsageTotal):
    """A total with the savings of the cache."""

    saved: CacheSavings = field(default_factory=CacheSavings)


Priced = Sequence[tuple[Spending, CacheSavings]]


def routes(context: DashboardContext, page: PageRenderer) -> list[web.RouteDef]:
    async def show(request: web.Request) -> web.Response:
        days = optional_int(request, "days", minimum=1, maximum=_MAX_DAYS) or _DEFAULT_DAYS
        today = date.fromtimestamp(Day.of(time.time()).start)
        first = today - timedelta(days=days - 1)
        since = time.mktime(first.timetuple())
        # Both are grouped by model as well: the savings depend on its prices.
        by_day, by_person = await asyncio.gather(
            context.reports.spending(since=since, by=["day", "model"]),
            context.reports.spending(since=since, by=["person", "model"]),
        )
        # In a thread: prices are read from a file.
        variables = await asyncio.to_thread(_variables, by_day, by_person, first, days)
        return page.render(request, "dashboard/spend.html", {"choices": _CHOICES, "days": days, **variables})

    return [web.get("/dashboard/spend", show)]


def _variables(
    spending: Sequence[Spending], spending_of_people: Sequence[Spending], first: date, days: int
) -> dict[str, Any]:
    priced = [(each, _saved(each)) for each in spending]
    people = [(each, _saved(each)) for each in spending_of_people]
    dates = [(first + timedelta(days=number)).isoformat() for number in range(days)]
    by_day = {total.name: total for total in _totals(priced, lambda each: each.day)}
    by_model = _by_cost(_totals(priced, lambda each: each.model))
    total = next(iter(_totals(priced, lambda each: "all")), PricedTotal("all"))
    return {
        "total": total,
        "charts": _charts(priced, dates, by_day, by_model) if spending else [],
        "tables": {
            "Day": list(reversed(by_day.values())),
            "Person": _by_cost(_totals(people, lambda each: each.person))[:_MAX_ROWS],
            "Model": by_model[:_MAX_ROWS],
        },
    }


def _saved(each: Spending) -> CacheSavings:
    usage = Usage(each.prompt_tokens, each.completion_tokens, each.cache_read_tokens, each.cache_write_tokens)
    return cache_savings(each.model, usage)


def _totals(priced: Priced, name: Callable[[Spending], str]) -> list[PricedTotal]:
    totals: dict[str, PricedTotal] = {}
    for each, saved in priced:
        total = totals.setdefault(name(each), PricedTotal(name(each)))
        total.add(each)
        total.saved += saved
    return list(totals.values())


def _by_cost(totals: Iterable[PricedTotal]) -> list[PricedTotal]:
    return sorted(totals, key=lambda total: (-total.usd, -total.prompt_tokens, total.name))


def _charts(
    priced: Priced, dates: Sequence[str], by_day: dict[str, PricedTotal], by_model: Sequence[PricedTotal]
) -> list[Any]:
    nothing = PricedTotal("")
    days = [by_day.get(day, nothing) for day in dates]
    tokens = [
        Series("In, fresh", [each.prompt_tokens - each.cache_read_tokens for each in days]),
        Series("In, from the cache", [each.cache_read_tokens for each in days]),
        Series("Out", [each.completion_tokens for each in days]),
    ]
    charts = [bars("tokens", "Tokens per day", dates, tokens, short_count)]
    if any(each.usd for each in days):
        charts.insert(0, bars("cost", "Cost per day", dates, _costs(priced, dates, by_model), format_usd))
    return charts


def _costs(priced: Priced, dates: Sequence[str], by_model: Sequence[PricedTotal]) -> list[Series]:
    named = [total.name for total in by_model[:_NAMED_MODELS]]
    names = [*named, *(["other models"] if len(by_model) > len(named) else [])]
    costs = {name: dict.fromkeys(dates, 0.0) for name in names}
    for each, _ in priced:
        column = costs[each.model if each.model in named else "other models"]
        if each.day in column:
            column[each.day] += each.usd
    return [Series(name, list(column.values())) for name, column in costs.items()]
