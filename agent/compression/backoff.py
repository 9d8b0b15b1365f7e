"""Back-off after failed compactions, and a memo of the last result."""

from __future__ import annotations

import math
from collections.abc import Callable

from agent.messages import ChatDict

_FIRST_WAIT = 60.0
_LONGEST_WAIT = 3_600.0
_DOUBLINGS = 10


class Backoff:
    """One minute after the first strike, twice as long after each further one, at most an hour."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.strikes = 0
        self._until: float | None = None

    def strike(self) -> None:
        self._until = self._clock() + min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(self.strikes, _DOUBLINGS))
        self.strikes += 1

    def clear(self) -> None:
        self.strikes = 0
        self._until = None

    @property
    def is_waiting(self) -> bool:
        return self._until is not None and self._clock() < self._until


class NoGain(Backoff):
    """Strikes for compactions that did not help: the first usage after one shows it.

    A host may compact ahead and use the result later. Usage reported in between describes the old
    conversation and is ignored once the result is used.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._awaits_usage = False
        self._before: tuple[int, float | None] = (0, None)

    def clear(self) -> None:
        """Forget also the strikes from before a compaction, so that using its result does not bring them back."""
        super().clear()
        self._before = (0, None)

    def compacted(self) -> None:
        self._before = self.strikes, self._until
        self._awaits_usage = True

    def used(self) -> None:
        """Note that the conversation continues with the result."""
        self.strikes, self._until = self._before
        self._awaits_usage = True

    def judge(self, prompt_tokens: int, threshold: int) -> None:
        if not self._awaits_usage or not prompt_tokens:
            return
        self._awaits_usage = False
        if prompt_tokens >= threshold:
            self.strike()
        else:
            super().clear()


class CompactionMemo:
    """The last compaction, so that the same messages are not compacted twice. The next model call clears it."""

    _messages: list[ChatDict]
    _focus: str | None
    _result: list[ChatDict]
    _until: float

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.forget()

    def remember(
        self,
        messages: list[ChatDict],
        focus: str | None,
        result: list[ChatDict],
        *,
        seconds: float = math.inf,
    ) -> None:
        self._messages = list(messages)
        self._focus = focus
        self._result = result
        self._until = self._clock() + seconds

    def forget(self) -> None:
        self._messages = []
        self._result = []
        self._focus = None
        self._until = -math.inf

    def result_for(self, messages: list[ChatDict], focus: str | None) -> list[ChatDict] | None:
        """Return the known result for these messages, or None. The same messages mean that nothing can be gained."""
        if self._clock() >= self._until:
            return None
        if messages == self._result:
            return messages
        return list(self._result) if focus == self._focus and messages == self._messages else None
