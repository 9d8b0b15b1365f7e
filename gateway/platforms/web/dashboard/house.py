"""What the pages look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.access.people import People
from gateway.config.load import Loaded
from gateway.gateway import Gateway
from gateway.insight import Insight
from gateway.platforms.base import Platform


class Measured(Protocol):
    """What is counted while Hermes runs, and in no database."""

    @property
    def lag_seconds(self) -> float:
        """How late the event loop is."""
        ...

    def newest_errors(self, limit: int) -> Sequence[tuple[float, str]]:
        """When each came, and a sentence about it; the newest first."""
        ...


@dataclass(frozen=True, slots=True)
class House:
    """The running Hermes, as its operator sees it."""

    gateway: Gateway
    insight: Insight
    people: People
    loaded: Loaded
    model: str
    """Which model answers and why."""
    platforms: Sequence[Platform] = ()
    metrics: Measured | None = None
    """None where nothing is measured."""
