"""Limits per person: messages per minute, queued messages, cost per day.

The daily budget uses the reported and stored costs and is checked before each call. A running call is finished, so a
day can exceed the budget by the calls of one moment. An unknown price is replaced by an assumed one: counting 0 would
remove the limit, and refusing the call would make every new model useless.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

import structlog

from agent.errors import BudgetReached
from agent.llm import Usage
from agent.store import SessionStore
from gateway.config.schema import LimitsConfig
from gateway.errors import QueueFull
from gateway.store.ports import QueueLimits
from gateway.types import OWNER


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


_MINUTE = 60.0
_MAX_PEOPLE = 10_000
"""The least recent writer is evicted and restarts with a full bucket."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message rejected by the rate limit."""

    per_minute: int
    seconds: int
    """Seconds until messages are accepted again."""
    is_first: bool
    """Whether the person gets a notice. Later refusals of the same pause are silent."""

    def __str__(self) -> str:
        return (
            f"Too many messages: Hermes accepts {self.per_minute} a minute from one person. This one was not accepted; "
            f"try again in {self.seconds} s."
        )


@dataclass(slots=True)
class _Bucket:
    """Token bucket of one person, one token per message. `time` is the person's clock: seconds since the first message,
    by our clock or, if that is later, by the dates of the messages. Messages written over an hour that arrive together
    after an outage therefore count as written over an hour."""

    tokens: float
    began_at: float
    """Start by our clock."""
    began_writing: float | None
    """Start by the dates of the messages."""
    time: float = 0.0
    ahead: float = 0.0
    """Seconds by which the person's clock is ahead of ours."""
    closed_until: float = 0.0

    def advance(self, arrived_at: float, written_at: float | None, capacity: int) -> None:
        now = arrived_at - self.began_at + self.ahead
        if written_at is not None:
            if self.began_writing is None:
                self.began_writing = written_at - now
            more = max(0.0, written_at - self.began_writing - now)
            self.ahead += more
            now += more
        self.tokens = min(capacity, self.tokens + (now - self.time) * capacity / _MINUTE)
        self.time = now


class RateLimit:
    """Token bucket per person: a burst of one minute's messages, then the refill rate.

    When the bucket is empty, messages are rejected for `pause` seconds, so that one notice covers all of them. Without
    the pause, every second message would pass, and the person could not tell which.
    """

    def __init__(self, per_minute: int, *, pause: float = _MINUTE, clock: Callable[[], float]) -> None:
        self._per_minute = per_minute
        self._pause = pause
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    @property
    def remembered(self) -> int:
        """Number of people with a bucket."""
        return len(self._buckets)

    def refusal(self, person: str, written_at: float | None = None) -> Refusal | None:
        """Count the message and return None, or return a Refusal. `written_at` is the date by the chat service."""
        bucket = self._bucket(person, written_at)
        if bucket.time < bucket.closed_until:
            return self._refusal(bucket.closed_until - bucket.time, is_first=False)
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return None
        until_refilled = (1 - bucket.tokens) * _MINUTE / self._per_minute
        bucket.closed_until = bucket.time + self._pause
        return self._refusal(max(self._pause, until_refilled), is_first=True)

    def refund(self, person: str) -> None:
        """Return the token of the last message, which was not stored."""
        if bucket := self._buckets.get(person):
            bucket.tokens = min(self._per_minute, bucket.tokens + 1)

    def _refusal(self, seconds: float, *, is_first: bool) -> Refusal:
        return Refusal(self._per_minute, max(1, ceil(seconds)), is_first)

    def _bucket(self, person: str, written_at: float | None) -> _Bucket:
        now = self._clock()
        bucket = self._buckets.get(person)
        if bucket is None:
            bucket = self._buckets[person] = _Bucket(self._per_minute, now, written_at)
            if len(self._buckets) > _MAX_PEOPLE:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(person)
            bucket.advance(now, written_at, self._per_minute)
        return bucket


_QUEUED_PEOPLE = 4
"""The queue of a group conversation is this many times the queue of one person."""


class Limits:
    """Checks rate limits, queue limits and the daily budget."""

    def __init__(
        self,
        config: LimitsConfig,
        store: SessionStore,
        *,
        clock: Callable[[], float] = time.monotonic,
        calendar: Callable[[], float] = time.time,
    ) -> None:
        """`clock` is monotonic; `calendar` is the wall clock."""
        self.budget = DailyBudget(config, store, clock=calendar)
        self._clock = clock
        self._use(config)

    @classmethod
    def none(cls, store: SessionStore) -> Limits:
        """Return limits on the queue only."""
        return cls(LimitsConfig(messages_per_minute=None, owner_messages_per_minute=None), store)

    def apply(self, config: LimitsConfig) -> None:
        """Use new limits from now on. Message counts restart; the cost of today still counts."""
        if config != self._config:
            self.budget.apply(config)
            self._use(config)

    def _use(self, config: LimitsConfig) -> None:
        self._config = config
        self.queue_limits = QueueLimits(
            _QUEUED_PEOPLE * config.waiting_messages, per_person=config.waiting_messages
        )
        """Per conversation. Each queued message becomes a paid turn."""
        people, owner = config.messages_per_minute, config.owner_messages_per_minute
        self._people = RateLimit(people, clock=self._clock) if people else None
        # API clients read every response, so the owner gets no pause after a refusal.
        self._owner = RateLimit(owner, pause=0.0, clock=self._clock) if owner else None

    def refusal(self, person: str, written_at: float | None = None) -> Refusal | None:
        """Count a message that would start a turn. Return a Refusal if the rate limit is reached."""
        rate = self._owner if person == OWNER else self._people
        return rate.refusal(person, written_at) if rate else None

    def refund(self, person: str) -> None:
        """Uncount a message that could not be stored; it will be sent and counted again."""
        if person != OWNER and self._people:
            self._people.refund(person)

    def check_queue(self, waiting: int) -> None:
        """Raise QueueFull if a sender with so many waiting messages may not send another. Chat platforms do not need
        this: adding to the inbox counts their messages."""
        if waiting >= self.queue_limits.per_person:
            raise QueueFull(waiting)
