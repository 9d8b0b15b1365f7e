"""Accidents on the way to Telegram, planned by a test: errors, dropped connections, calls that hang."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from tests.fakes.telegram.errors import Refused, too_many_requests
from tests.fakes.telegram.waiting import seen
from tests.fakes.telegram.wire import Arguments
from tests.support.watch import PATIENCE, Watch

ALWAYS = 10**9


@dataclass(slots=True, eq=False)
class Call:
    """One call as it arrived."""

    method: str
    arguments: Arguments
    bot_id: int
    at: float = field(default_factory=time.monotonic)
    result: Any = None
    """The response of a successful call."""
    error: str = ""
    """The description with which it was refused, or what happened to the connection."""
    done: bool = False

    @property
    def params(self) -> dict[str, Any]:
        return self.arguments.values

    @property
    def chat_id(self) -> Any:
        return self.params.get("chat_id")

    @property
    def text(self) -> str:
        return self.arguments.text("text") or self.arguments.text("caption")


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: replaces or surrounds the ordinary end of a call."""

    kind: Literal["error", "drop", "lost", "hang", "odd"]
    refusal: Refused | None = None
    result: Any = None

    @classmethod
    def error(cls, code: int, description: str, **parameters: Any) -> Fault:
        """Answered with this and not carried out. `description` is whole: `"Bad Request: ..."`."""
        return cls("error", Refused(code, description, **parameters))

    @classmethod
    def flood(cls, seconds: int) -> Fault:
        """429, come back after that many seconds."""
        return cls("error", too_many_requests(seconds))

    @classmethod
    def drop(cls) -> Fault:
        """The connection is torn down and nothing happened."""
        return cls("drop")

    @classmethod
    def lost(cls) -> Fault:
        """It is carried out, then the connection is torn down: the acknowledgement is lost."""
        return cls("lost")

    @classmethod
    def odd(cls, result: Any) -> Fault:
        """It is carried out, and answered with this result instead of the proper one."""
        return cls("odd", result=result)

    @classmethod
    def hang(cls) -> Fault:
        """It waits until the test releases it, then goes on as usual."""
        return cls("hang")


class Planned:
    """A fault lying in wait. `await planned.arrived()` gives the call that met it."""

    def __init__(
        self,
        method: str,
        fault: Fault,
        *,
        times: int = 1,
        after: int = 0,
        when: Callable[[Call], bool] | None = None,
    ) -> None:
        self.method = method
        self.fault = fault
        self.calls: list[Call] = []
        """Those it met."""
        self._times = times
        self._after = after
        self._when = when
        self._watch = Watch()
        self._released = asyncio.Event()

    def meets(self, call: Call) -> bool:
        if self._times == 0 or call.method.lower() != self.method.lower():
            return False
        if self._when is not None and not self._when(call):
            return False
        if self._after > 0:
            self._after -= 1
            return False
        self._times -= 1
        self.calls.append(call)
        self._watch.changed()
        return True

    def arrived(self, count: int = 1, timeout: float = PATIENCE) -> Awaitable[Call]:
        """Until that many calls have met it; gives the last of them."""
        return seen(self._watch, lambda: self.calls[count - 1] if len(self.calls) >= count else None, timeout)

    async def passed(self) -> None:
        """For a hanging call: until `release`."""
        await self._released.wait()

    def release(self) -> None:
        """Lets the hanging calls go on, and meets no more of them."""
        self._times = 0
        self._released.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
