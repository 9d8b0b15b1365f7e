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
from gateway.plugins.engines import BUILT_IN
from gateway.settings import Settings


@dataclass(frozen=True, slots=True)
class House:
    """The running Hermes, as its operator sees it."""

    gateway: Gateway
    insight: Insight
    people: People
    settings: Settings
    model: str
    """Which model answers and why."""
    platforms: Sequence[Platform] = ()
    metrics: Metrics | None = None
    """None where nothing is measured."""

    @property
    def loaded(self) -> Loaded:
        """The configuration as it is now: some of it changes while Hermes runs."""
        return self.settings.loaded

    @property
    def engine(self) -> str:
        """The context engine in use."""
        return BUILT_IN if self.gateway.plugins.unusable_engine else self.loaded.config.context.engine
