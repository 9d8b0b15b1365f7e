"""Requests as they arrived, the trouble a test has planned for them, and the rate limits they run into."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.fakes.discord.errors import ERRORS, Json, Refused
from tests.fakes.discord.messages import Upload
from tests.fakes.discord.time import Clock
from tests.support.watch import PATIENCE


@dataclass(eq=False)
class Call:
    """One request. `verb` is the server's name for the route, such as "send_message" (see discord_rest)."""

    verb: str
    method: str
    path: str
    ids: dict[str, str]
    """The variable parts of the path."""
    query: dict[str, str]
    body: Any
    files: dict[int, Upload]
    at: float
    token: str = ""
    status: int = 0
    """0 until it is answered, and for ever when the connection was dropped."""
    answer: Any = None

    def __repr__(self) -> str:
        return f"<{self.verb} {self.method} {self.path} {self.status}>"

    @property
    def json(self) -> Json:
        """The body, an object."""
        if self.body is None:
            return {}
        if not isinstance(self.body, dict):
            raise Refused(400, 50035, "Invalid Form Body", MODEL_TYPE)
        return self.body

    @property
    def major(self) -> str:
        """The part of the path by which rate limits are kept apart."""
        return self.ids.get("channel_id") or self.ids.get("guild_id") or self.ids.get("token") or ""


MODEL_TYPE: Json = {
    "_errors": [{"code": "MODEL_TYPE_CONVERT", "message": "Only dictionaries may be used in a ModelType"}]
}


@dataclass(eq=False)
class Fault:
    """A fault: replaces or accompanies the proper response to a request."""

    refusal: Refused | None = None
    retry_after: float | None = None
    """A 429, however much of the limit is left."""
    is_global: bool = False
    drops: Literal["", "before", "after"] = ""
    hangs: Literal["", "before", "after"] = ""
    body: Any = None
    """Replaces the body of the successful response."""
    reached: int = 0
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def error(cls, status: int, code: int = 0, message: str = "") -> Fault:
        known = ERRORS.get(code, (status, f"{status}: Error"))
        return cls(Refused(status, code, message or known[1]))

    @classmethod
    def rate_limited(cls, retry_after: float, *, is_global: bool = False) -> Fault:
        return cls(retry_after=retry_after, is_global=is_global)

    @classmethod
    def drop(cls) -> Fault:
        """The connection is cut and nothing is done."""
        return cls(drops="before")

    @classmethod
    def lose_answer(cls) -> Fault:
        """It is done, but the connection is cut before the answer."""
        return cls(drops="after")

    @classmethod
    def odd(cls, body: Any) -> Fault:
        """The request is carried out, and the successful response has this JSON as its body."""
        return cls(body=body)

    @classmethod
    def hang(cls, when: Literal["before", "after"] = "before") -> Fault:
        """Waits for `release()` before (or after) it is done, then goes on as usual."""
        return cls(hangs=when)

    def release(self) -> None:
        self._released.set()

    async def arrived(self) -> None:
        """Until a request has met this fault."""
        await asyncio.wait_for(self._arrived.wait(), PATIENCE)

    def meet(self) -> None:
        self.reached += 1
        self._arrived.set()

    async def hold(self, when: str) -> None:
        if self.hangs == when:
            await self._released.wait()


@dataclass
class _Plan:
    verb: str
    fault: Fault
    times: int
    after: int
    where: Callable[[Call], bool]


class Faults:
    def __init__(self) -> None:
        self._plans: list[_Plan] = []

    def add(
        self, verb: str, fault: Fault, times: int, after: int, where: Callable[[Call], bool] | None
    ) -> None:
        self._plans.append(_Plan(verb, fault, times, after, where or (lambda call: True)))

    def take(self, call: Call) -> Fault | None:
        for plan in self._plans:
            if plan.times and _matches(plan.verb, call) and plan.where(call):
                if plan.after:
                    plan.after -= 1
                    continue
                plan.times -= 1
                plan.fault.meet()
                return plan.fault
        return None

    def release_all(self) -> None:
        for plan in self._plans:
            plan.fault.release()


def _matches(verb: str, call: Call) -> bool:
    return verb in ("*", call.verb, f"{call.method} {call.path}")


@dataclass(frozen=True)
class Limit:
    """So many requests in so many seconds, for each channel."""

    name: str
    count: int
    per: float


@dataclass
class _Bucket:
    used: int = 0
    resets_at: float = 0.0


LENIENT = (1000, 1.0)


class Limits:
    """Buckets that start with their first request and reset as a whole, as Discord's do."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._limits: dict[str, Limit] = {}
        self._buckets: dict[tuple[str, str], _Bucket] = defaultdict(_Bucket)
        self.overall: Limit | None = None

    def set(self, verbs: Sequence[str], count: int, per: float) -> None:
        """These routes share one bucket for each channel."""
        limit = Limit("+".join(verbs), count, per)
        for verb in verbs:
            self._limits[verb] = limit

    def take(self, call: Call) -> dict[str, str]:
        """The headers that go with the answer. Raises RateLimited."""
        if self.overall is not None:
            self._take(self.overall, "", is_global=True)
        limit = self._limits.get(call.verb) or Limit(call.verb, *LENIENT)
        return self._take(limit, call.major, is_global=False)

    def _take(self, limit: Limit, major: str, *, is_global: bool) -> dict[str, str]:
        now = self._clock.now()
        bucket = self._buckets[limit.name, major]
        if now >= bucket.resets_at:
            bucket.used, bucket.resets_at = 0, now + limit.per
        left = bucket.resets_at - now
        exceeded = bucket.used >= limit.count
        bucket.used += not exceeded
        headers = {
            "X-RateLimit-Limit": str(limit.count),
            "X-RateLimit-Remaining": str(limit.count - bucket.used),
            "X-RateLimit-Reset": f"{bucket.resets_at:.3f}",
            "X-RateLimit-Reset-After": f"{left:.3f}",
            "X-RateLimit-Bucket": f"bucket-{limit.name}",
        }
        if exceeded:
            raise RateLimited(left, is_global=is_global, headers=headers)
        return headers


class RateLimited(Exception):
    """429."""

    def __init__(self, retry_after: float, *, is_global: bool, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"retry after {retry_after:.3f} s")
        self.retry_after = retry_after
        self.is_global = is_global
        scope = {"X-RateLimit-Scope": "global" if is_global else "user"}
        self.headers = {**(headers or {}), **scope, "Retry-After": str(int(retry_after) + 1)}
        if is_global:
            self.headers["X-RateLimit-Global"] = "true"

    @property
    def body(self) -> Json:
        return {
            "message": "You are being rate limited.",
            "retry_after": round(self.retry_after, 3),
            "global": self.is_global,
        }
