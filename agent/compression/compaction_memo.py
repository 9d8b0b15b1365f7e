"""Remembers the last compaction, so that it is repeated neither on the same messages nor on its own result."""

from __future__ import annotations

import math
from collections.abc import Callable

from agent.messages import ChatDict


class CompactionMemo:
    """Forgotten with the next model call: by then the conversation has moved on, and the memory can be freed."""

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
        """For so many seconds at most."""
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
        """What is known to come of compacting these messages; they themselves where nothing can be gained."""
        if self._clock() >= self._until:
            return None
        if messages == self._result:
            return messages
        return list(self._result) if focus == self._focus and messages == self._messages else None
