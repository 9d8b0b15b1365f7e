"""The pace Telegram allows: too many sends and edits are refused with the seconds to wait."""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from tests.fakes.telegram.errors import too_many_requests


@dataclass(frozen=True, slots=True)
class Pace:
    """At most `count` within `seconds`."""

    count: int
    seconds: float


@dataclass(slots=True)
class Limits:
    """`None`: unlimited. `Limits.real()` is what Telegram documents: about one a second in a chat with short
    bursts, 20 a minute in a group, 30 a second for the whole bot; edits count like sends."""

    chat: Pace | None = None
    group: Pace | None = None
    everything: Pace | None = None
    clock: Callable[[], float] = time.monotonic
    refusals: int = 0
    _spent: dict[Hashable, deque[float]] = field(default_factory=lambda: defaultdict(deque))

    @classmethod
    def real(cls) -> Limits:
        return cls(chat=Pace(5, 5.0), group=Pace(20, 60.0), everything=Pace(30, 1.0))

    def spend(self, bot_id: int, chat_id: int, *, in_group: bool) -> None:
        """Raises Refused with code 429; what is refused costs nothing."""
        now = self.clock()
        accounts: list[tuple[Hashable, Pace | None]] = [
            ((bot_id, chat_id, "chat"), self.chat),
            ((bot_id, chat_id, "group"), self.group if in_group else None),
            ((bot_id, "everything"), self.everything),
        ]
        wait = max(self._wait(account, pace, now) for account, pace in accounts)
        if wait > 0:
            self.refusals += 1
            raise too_many_requests(max(1, math.ceil(wait)))
        for account, pace in accounts:
            if pace is not None:
                self._spent[account].append(now)

    def _wait(self, account: Hashable, pace: Pace | None, now: float) -> float:
        if pace is None:
            return 0.0
        times = self._spent[account]
        while times and times[0] <= now - pace.seconds:
            times.popleft()
        return times[0] + pace.seconds - now if len(times) >= pace.count else 0.0
