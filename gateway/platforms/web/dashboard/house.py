"""What the pages look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.access.people import People
from gateway.config.load import Loaded
from gateway.gateway import Gateway
from gateway.insight import Insight
from gateway.metrics import Metrics
from gateway.platforms.base import Platform


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
    metrics: Metrics | None = None
    """None where nothing is measured."""
