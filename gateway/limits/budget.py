"""The daily budget: what models may cost for one person, and for everybody together.

It goes by the costs that are reported and stored, and is asked before each call: a call under way is finished, so a day
can cost as much more as the calls of one moment do. Where a price is not known, one is assumed: counting nothing would
leave the owner's money without a limit, and asking nothing would make every new model useless.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from agent.errors import BudgetReached
from agent.llm import Usage
from agent.store import SessionStore
from gateway.config.schema_limits import LimitsConfig


@dataclass(frozen=True, slots=True)
class Day:
    """In seconds since 1970."""

    begins: float
    ends: float

    @classmethod
    def of(cls, now: float) -> Day:
        """Local dates, so that a day at a change of the clocks has its 23 or 25 hours."""
        midnight = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
        return cls(midnight.timestamp(), (midnight + timedelta(days=1)).timestamp())


def format_duration(seconds: float) -> str:
    """`5 h 12 min`, never nothing at all."""
    hours, minutes = divmod(max(1, round(seconds / 60)), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


log = structlog.get_logger(__name__)

_MILLION = 1_000_000
_LEAST_TOKENS = 1_000
"""What a call is taken to need where nobody says how much it was."""
_EVERYBODY = None


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """What was spent today, and what may be."""

    reported: float
    """In dollars."""
    unknown_calls: int
    """Those that nobody gave a price for."""
    assumed: float
    """What those count, in dollars."""
    cap: float | None

    @property
    def usd(self) -> float:
        return self.reported + self.assumed

    @property
    def left(self) -> float | None:
        return None if self.cap is None else max(0.0, self.cap - self.usd)


@dataclass(slots=True)
class _Abandoned:
    """Calls that were stopped before they told their price."""

    calls: int = 0
    usd: float = 0.0


class DailyBudget:
    """Implements `agent.models.budget.Budget`."""

    def __init__(self, config: LimitsConfig, store: SessionStore, *, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self.apply(config)
        self._prices: dict[str, float] = {}
        """By model: what a token came to in its last call. It prices the calls that are stopped."""
        self._abandoned: dict[str | None, _Abandoned] = {}
        self._abandoned_on = 0.0
        """The day they belong to."""
        self._unpriced: set[str] = set()
        """Models whose unknown price stands in the log."""

    def apply(self, config: LimitsConfig) -> None:
        """From the next question on; what was spent today stays spent."""
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
            self._refuse_beyond(await self.of_everybody(), "Everybody together has", "daily_usd_total")

    async def of_person(self, person: str) -> BudgetStatus:
        return await self._spending(person, self._per_person)

    async def of_everybody(self) -> BudgetStatus:
        return await self._spending(_EVERYBODY, self._total)

    def note_price(self, model: str, usage: Usage) -> None:
        if usage.cost_usd is not None:
            self._prices[model] = usage.cost_usd / max(usage.total_tokens, 1)
        elif self.has_caps and model not in self._unpriced:
            self._unpriced.add(model)
            log.warning("budget.price_unknown", model=model, usd_per_million=self._unknown_price * _MILLION)

    def note_abandoned(self, spender: str, model: str, tokens: int) -> None:
        usd = tokens * self._prices.get(model, self._unknown_price)
        for whose in {spender, _EVERYBODY}:
            noted = self._abandoned_today().setdefault(whose, _Abandoned())
            noted.calls += 1
            noted.usd += usd

    def _refuse_beyond(self, spending: BudgetStatus, whose: str, key: str) -> None:
        if spending.left != 0:
            return
        now = self._clock()
        assumed = f", {format_usd(spending.assumed)} of it assumed" if spending.assumed else ""
        raise BudgetReached(
            f"{whose} spent {format_usd(spending.usd)} of {format_usd(spending.cap or 0)} today{assumed} "
            f"(`limits.{key}`). The limit resets in {format_duration(Day.of(now).ends - now)}, at midnight where "
            "Hermes runs. Finished steps are kept."
        )

    async def _spending(self, spender: str | None, cap: float | None) -> BudgetStatus:
        spent = await self._store.spent(spender=spender, since=Day.of(self._clock()).begins)
        tokens = max(spent.unpriced_tokens, spent.unpriced_calls * _LEAST_TOKENS)
        stopped = self._abandoned_today().get(spender, _Abandoned())
        return BudgetStatus(
            spent.usd, spent.unpriced_calls + stopped.calls, tokens * self._unknown_price + stopped.usd, cap
        )

    def _abandoned_today(self) -> dict[str | None, _Abandoned]:
        today = Day.of(self._clock()).begins
        if today != self._abandoned_on:
            self._abandoned_on = today
            self._abandoned.clear()
        return self._abandoned


def format_usd(usd: float) -> str:
    """`$1.20`, and `$0.0042` for what is less than ten cents."""
    return f"${usd:,.2f}" if usd >= 0.1 or usd == 0 else f"${usd:.4f}"
