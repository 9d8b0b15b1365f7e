"""The pace of automatic compactions in one conversation: slower when they do not help or come too often."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable

from agent.auxiliary_client import Deadline
from agent.compression.backoff import Backoff, NoGain

NEARLY_FULL = 0.85
"""The share of the window at which session hygiene compacts."""
_MIN_ANSWERS_BETWEEN = 4
_TOO_SOON_IN_A_ROW = 3
_ANSWERS_UNTIL_NORMAL = 24


class CompactionPace:
    """Counts the answers between compactions. Three in a row that come too soon raise the threshold."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.in_vain = NoGain(clock)
        """Strikes for compactions after which the window was still nearly full."""
        self.has_advised = False
        """The person was told that compaction cannot help."""
        self.begin()

    @property
    def is_wide(self) -> bool:
        return self._too_soon >= _TOO_SOON_IN_A_ROW

    def answered(self, prompt_tokens: int, context_length: int) -> None:
        """Count an answer. The first one after a compaction shows whether it helped."""
        self._answers += 1
        self.in_vain.judge(prompt_tokens, round(NEARLY_FULL * context_length))

    def begin(self) -> None:
        """Start again, in a session that no compaction made."""
        self._answers = _ANSWERS_UNTIL_NORMAL
        self._too_soon = 0

    def compacted(self) -> bool:
        """Count an automatic compaction. True if it widened the step."""
        was_wide = self.is_wide
        if self._answers < _MIN_ANSWERS_BETWEEN:
            self._too_soon = min(self._too_soon + 1, _TOO_SOON_IN_A_ROW)
        elif not was_wide or self._answers >= _ANSWERS_UNTIL_NORMAL:
            self._too_soon = 0
        self._answers = 0
        self.in_vain.compacted()
        return self.is_wide and not was_wide


def advice(engine: str, context_length: int) -> str:
    """Return the notice that compaction waits longer from now on, and what helps."""
    settings = ", raise `compression.threshold`, lower `compression.protect_last_n`"
    return (
        "This conversation was compacted every few messages: little fits into the window beside what always stays. "
        f"From now on Hermes waits until {NEARLY_FULL:.0%} of the {context_length:,} tokens are used. "
        "For fewer compactions, choose a model with a larger window"
        f"{settings if engine == 'compressor' else ''} or enable fewer tools."
    )


TURN_SECONDS = 10.0
"""After it the built-in engine writes an extract, and the summary in the background."""
COMMAND_SECONDS = 60.0


class SummaryTimeout:
    """Time limits for summaries. No turn waits for a model that missed one lately; background work still asks it."""

    def __init__(self, *, turn_seconds: float = TURN_SECONDS) -> None:
        self.turn_seconds = turn_seconds
        self._hangs: defaultdict[str, Backoff] = defaultdict(lambda: Backoff(time.monotonic))

    def seconds(self, trigger: str, model: str) -> float:
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
