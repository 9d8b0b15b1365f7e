"""All limits together, as the gateway asks for them."""

from __future__ import annotations

import time
from collections.abc import Callable

from agent.store import SessionStore
from gateway.config.schema_limits import LimitsConfig
from gateway.errors import QueueFull
from gateway.limits.budget import DailyBudget
from gateway.limits.rate import RateLimit, Refusal
from gateway.store.ports import QueueLimits
from gateway.types import OWNER

_QUEUED_PEOPLE = 4
"""A conversation of many takes so many times what waits for one person."""


class Limits:
    """What `limits` in the configuration says."""

    def __init__(
        self,
        config: LimitsConfig,
        store: SessionStore,
        *,
        clock: Callable[[], float] = time.monotonic,
        calendar: Callable[[], float] = time.time,
    ) -> None:
        """`clock` counts seconds; `calendar` tells the date as well."""
        self.budget = DailyBudget(config, store, clock=calendar)
        self._clock = clock
        self._take_over(config)

    @classmethod
    def none(cls, store: SessionStore) -> Limits:
        """Only what waits is bounded."""
        return cls(LimitsConfig(messages_per_minute=None, owner_messages_per_minute=None), store)

    def apply(self, config: LimitsConfig) -> None:
        """Other numbers from now on. Messages are counted anew; what was spent today stays spent."""
        if config != self._config:
            self.budget.apply(config)
            self._take_over(config)

    def _take_over(self, config: LimitsConfig) -> None:
        self._config = config
        self.room = QueueLimits(
            _QUEUED_PEOPLE * config.waiting_messages, of_one_person=config.waiting_messages
        )
        """In each conversation. Each message that waits becomes a turn that somebody pays for."""
        people, owner = config.messages_per_minute, config.owner_messages_per_minute
        self._people = RateLimit(people, clock=self._clock) if people else None
        # Whoever calls an interface reads every answer: they need not be spared, nor be kept waiting for longer.
        self._owner = RateLimit(owner, pause=0.0, clock=self._clock) if owner else None

    def refusal(self, person: str, written_at: float | None = None) -> Refusal | None:
        """Asked once for each message that would begin a turn, before it is taken."""
        rate = self._owner if person == OWNER else self._people
        return rate.refusal(person, written_at) if rate else None

    def give_back(self, person: str) -> None:
        """A message that was counted could not be kept; it comes again, and counts then."""
        if person != OWNER and self._people:
            self._people.give_back(person)

    def check_room(self, waiting: int) -> None:
        """Raise QueueFull if a sender with so many waiting messages may not send another. Chat platforms do not need
        this: adding to the inbox counts their messages."""
        if waiting >= self.room.of_one_person:
            raise QueueFull(waiting)
