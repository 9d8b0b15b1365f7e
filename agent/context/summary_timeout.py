"""Limits how long a compaction waits for the models that write its summaries."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable

from agent.auxiliary_client import Deadline
from agent.compression.backoff import Backoff

TURN_SECONDS = 10.0
"""In a turn. The built-in engine then writes an extract, and the summary in the background."""
COMMAND_SECONDS = 60.0
"""For `/compress`: who asked for it expects to wait."""


class SummaryTimeout:
    """Remembers which models did not answer in time. While such a memory is fresh, no turn waits for that model again;
    in the background it is asked all the same."""

    def __init__(
        self, *, turn_seconds: float = TURN_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.turn_seconds = turn_seconds
        self._hangs: defaultdict[str, Backoff] = defaultdict(lambda: Backoff(clock))

    def seconds(self, trigger: str, model: str) -> float:
        """For all calls of one compaction together."""
        if trigger == "background":
            return math.inf
        if trigger == "command":
            return COMMAND_SECONDS
        return 0.0 if self._hangs[model].is_waiting else self.turn_seconds

    def learn(self, model: str, deadline: Deadline, *, has_answered: bool) -> None:
        hangs = self._hangs[model]
        if deadline.missed and not hangs.is_waiting:
            hangs.strike()
        elif has_answered and not deadline.missed:
            hangs.clear()
