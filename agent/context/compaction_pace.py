"""The pace of automatic compactions in one conversation: slower when they do not help or come too often."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable

from agent.auxiliary_client import Deadline
from agent.compression.backoff import Backoff, NoGain

NEARLY_FULL = 0.85
"""The share of the window at which session hygiene compacts whatever else happened."""
_TOO_SOON = 4
"""Answers of the model between two compactions; with fewer, the second came too soon."""
_IN_A_ROW = 3
_CALM = 24
"""After so many answers without a compaction the ordinary threshold counts again."""


class CompactionPace:
    """Counts the answers between compactions.

    Three compactions in a row that come too soon widen the step: the conversation may then grow until the window is
    nearly full. That costs fewer summaries, and the tail of the newest messages stays whole.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.in_vain = NoGain(clock)
        """Strikes for compactions after which the window was still nearly full."""
        self.has_advised = False
        """The person knows that compaction cannot help because of what goes with every prompt."""
        self.begin()

    @property
    def is_wide(self) -> bool:
        return self._too_soon >= _IN_A_ROW

    def answered(self, prompt_tokens: int, context_length: int) -> None:
        """Takes the size of a prompt that was answered. The first one after a compaction shows whether it helped."""
        self._answers += 1
        self.in_vain.judge(prompt_tokens, round(NEARLY_FULL * context_length))

    def begin(self) -> None:
        """A session begins that no compaction made."""
        self._answers = _CALM
        self._too_soon = 0

    def compacted(self) -> bool:
        """Count an automatic compaction. True if it widened the step."""
        was_wide = self.is_wide
        if self._answers < _TOO_SOON:
            self._too_soon = min(self._too_soon + 1, _IN_A_ROW)
        elif not was_wide or self._answers >= _CALM:
            self._too_soon = 0
        self._answers = 0
        self.in_vain.compacted()
        return self.is_wide and not was_wide


def advice(engine: str, context_length: int) -> str:
    """Tells the person that the step was widened, and what helps."""
    settings = ", raise `compression.threshold`, lower `compression.protect_last_n`"
    return (
        "This conversation was compacted every few messages: little fits into the window beside what always stays. "
        f"From now on Hermes waits until {NEARLY_FULL:.0%} of the {context_length:,} tokens are used. "
        "For fewer compactions, choose a model with a larger window"
        f"{settings if engine == 'compressor' else ''} or enable fewer tools."
    )


TURN_SECONDS = 10.0
"""In a turn. The built-in engine then writes an extract, and the summary in the background."""
COMMAND_SECONDS = 60.0
"""For `/compress`: who asked for it expects to wait."""


class SummaryTimeout:
    """Time limits for summaries. After a model missed one, no turn waits for it for a while; background work still asks
    it."""

    def __init__(
        self, *, turn_seconds: float = TURN_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.turn_seconds = turn_seconds
        self._hangs: defaultdict[str, Backoff] = defaultdict(lambda: Backoff(clock))

    def seconds(self, trigger: str, model: str) -> float:
        """Return the time limit for all model calls of one compaction."""
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
