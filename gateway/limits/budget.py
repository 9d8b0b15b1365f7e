"""The daily budget: the maximum cost of models for one person and for all people.

It uses the reported and stored costs and is checked before each call. A running call is finished, so a day can exceed
the budget by the calls of one moment. An unknown price is replaced by an assumed one: counting 0 would remove the
limit, and refusing the call would make every new model useless.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from agent.errors import BudgetReached
from agent.llm import Usage
from agent.store import SessionStore
from gateway.config.schema import LimitsConfig


@dataclass(frozen=True, slots=True)
class Day:
    """A local day, as Unix times."""

    start: float
    end: float

    @classmethod
    def of(cls, now: float) -> Day:
        """Return the local day that contains `now`; 23 or 25 hours long when the clocks change."""
        midnight = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
        return cls(midnight.timestamp(), (midnight + timedelta(days=1)).timestamp())


def format_duration(seconds: float) -> str:
    """Format a duration: `5 h 12 min`, at least `1 min`."""
    hours, minutes = divmod(max(1, round(seconds / 60)), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


log = structlog.get_logger(__name__)

_MILLION = 1_000_000
_LEAST_TOKENS = 1_000
"""Assumed tokens of a call that reported no usage."""
_ALL_PEOPLE = None


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """Cost of today, and the limit."""

    reported: float
    """Reported cost in dollars."""
    unknown_calls: int
    """Calls of unknown price."""
    assumed: float
    """Assumed cost of those calls in dollars."""
    cap: float | None

    @property
    def usd(self) -> float:
        return self.reported + self.assumed

    @property
    def left(self) -> float | None:
        return None if self.cap is None else max(0.0, self.cap - self.usd)


@dataclass(slots=True)
class _Abandoned:
    """Calls that were cancelled before they reported their cost."""

    calls: int = 0
    usd: float = 0.0


class DailyBudget:
    """Implements `agent.llm.guards.Budget`."""

    def __init__(self, config: LimitsConfig, store: SessionStore, *, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self.apply(config)
        self._prices: dict[str, float] = {}
        """Cost per token of the last call, by model; used for cancelled calls."""
        self._abandoned: dict[str | None, _Abandoned] = {}
        self._abandoned_on = 0.0
        """The day of `_abandoned`."""
        self._unpriced: set[str] = set()
        """Models whose unknown price was logged."""

    def apply(self, config: LimitsConfig) -> None:
        """Use new limits from the next check on. The cost of today still counts."""
        self._per_person = config.daily_usd_per_person
        self._total = config.daily_usd_total
        self._unknown_price = config.unknown_price / _MILLION

    @property
    def has_caps(self) -> bool:
        return self._per_person is not None or self._total is not None

    async def check(self, spender: str) -> None:
        if self._per_person is not None and spender:
            self._refuse_beyond(await self.of_person(spender), "You have", "daily_usd_per_person")
        if self._total is not None:
            self._refuse_beyond(await self.of_everybody(), "All people together have", "daily_usd_total")

    async def of_person(self, person: str) -> BudgetStatus:
        return await self._spending(person, self._per_person)

    async def of_everybody(self) -> BudgetStatus:
        return await self._spending(_ALL_PEOPLE, self._total)

    def note_price(self, model: str, usage: Usage) -> None:
        if usage.cost_usd is not None:
            self._prices[model] = usage.cost_usd / max(usage.total_tokens, 1)
        elif self.has_caps and model not in self._unpriced:
            self._unpriced.add(model)
            log.warning("budget.price_unknown", model=model, usd_per_million=self._unknown_price * _MILLION)

    def note_abandoned(self, spender: str, model: str, tokens: int) -> None:
        usd = tokens * self._prices.get(model, self._unknown_price)
        for key in {spender, _ALL_PEOPLE}:
            noted = self._abandoned_today().setdefault(key, _Abandoned())
            noted.calls += 1
            noted.usd += usd

    def _refuse_beyond(self, spending: BudgetStatus, whose: str, key: str) -> None:
        if spending.left != 0:
            return
        now = self._clock()
        assumed = f", {format_usd(spending.assumed)} of it assumed" if spending.assumed else ""
        raise BudgetReached(
            f"{whose} spent {format_usd(spending.usd)} of {format_usd(spending.cap or 0)} today{assumed} "
            f"(`limits.{key}`). The limit resets in {format_duration(Day.of(now).end - now)}, at midnight where "
            "Hermes runs. Finished steps are kept."
        )

    async def _spending(self, spender: str | None, cap: float | None) -> BudgetStatus:
        spent = await self._store.spent(spender=spender, since=Day.of(self._clock()).start)
        tokens = max(spent.unpriced_tokens, spent.unpriced_calls * _LEAST_TOKENS)
        stopped = self._abandoned_today().get(spender, _Abandoned())
        return BudgetStatus(
            spent.usd, spent.unpriced_calls + stopped.calls, tokens * self._unknown_price + stopped.usd, cap
        )

    def _abandoned_today(self) -> dict[str | None, _Abandoned]:
        today = Day.of(self._clock()).start
        if today != self._abandoned_on:
            self._abandoned_on = today
            self._abandoned.clear()
        return self._abandoned


def format_usd(usd: float) -> str:
    """Format an amount: `$1.20`, and `$0.0042` below ten cents."""
    return f"${usd:,.2f}" if usd >= 0.1 or usd == 0 else f"${usd:.4f}"
