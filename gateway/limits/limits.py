"""All limits of the `limits` section, as the gateway checks them."""

from __future__ import annotations

import time
from collections.abc import Callable

from agent.store import SessionStore
from gateway.config.schema import LimitsConfig
from gateway.errors import QueueFull
from gateway.limits.budget import DailyBudget
from gateway.limits.rate import RateLimit, Refusal
from gateway.store.ports import QueueLimits
from gateway.types import OWNER

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
