"""Anthropic prompt caching: which parts of a request carry a `cache_control` marker.

A marker asks the provider to keep everything up to it; a later request reads it back at a tenth of the price. At
most four are allowed, a longer TTL must come before a shorter one, and a read looks back at most 20 blocks from a
marker. Nothing here changes its input; only what is marked is copied.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

from agent.messages import ChatDict, ChatRequest
from agent.tokens import estimate_messages_tokens_rough

CacheTTL = Literal["5m", "1h"]
Strategy = Literal["system_and_3", "turn_aware"]

LIFETIME: dict[CacheTTL, float] = {"5m": 300.0, "1h": 3600.0}
"""Seconds from the start of the last request that used it."""
READ_PRICE = 0.1
WRITE_PRICE: dict[CacheTTL, float] = {"5m": 1.25, "1h": 2.0}
"""Both as a multiple of the price of uncached input."""

_ROUTES: tuple[list[str], ...] = ([], ["anthropic"], ["openrouter"], ["openrouter", "anthropic"])
_REMEMBERED_SESSIONS = 1_000


def supports_prompt_caching(model: str) -> bool:
    """Return whether it is Claude on Anthropic's own API or through OpenRouter; other routes get no markers."""
    *route, name = model.lower().replace("~", "").split("/")
    return name.startswith("claude") and route in _ROUTES


def is_native_anthropic(model: str) -> bool:
    """Return whether Anthropic itself is asked: only there may a tool message carry a marker."""
    return supports_prompt_caching(model) and not model.lower().startswith("openrouter/")


def apply_anthropic_cache_control(
    messages: Sequence[ChatDict],
    cache_ttl: CacheTTL = "5m",
    native_anthropic: bool = False,
    *,
    skip_unmarkable: bool = False,
) -> list[ChatDict]:
    """`system_and_3`: mark the system prompt and the last three other messages.

    With `skip_unmarkable`, earlier messages take the place of those on which the provider would not see a marker.
    """

    def takes(message: ChatDict) -> bool:
        return not skip_unmarkable or _can_carry(message, native_anthropic)

    wanted = [*_system(messages, takes), *islice(_backwards(messages, takes), 3)]
    return _mark(messages, dict.fromkeys(wanted, cache_ttl), native_anthropic)


@dataclass(frozen=True, slots=True)
class Marked:
    messages: list[ChatDict]
    tools: tuple[ChatDict, ...]


class PromptCaching:
    """Marks the requests of all conversations, where the model takes markers at all."""

    def __init__(
        self,
        *,
        strategy: Strategy = "system_and_3",
        cache_ttl: CacheTTL = "5m",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._strategy = strategy
        self._ttl = cache_ttl
        self._clock = clock
        self._pauses = Pauses()
        self._sessions: dict[tuple[str, str], TurnAwareCache] = {}
        """By session and model, the oldest first: after a split positions mean other messages, and another
        model has another cache."""

    def mark(
        self, session_id: str, model: str, messages: list[ChatDict], tools: Sequence[ChatDict]
    ) -> Marked:
        if not supports_prompt_caching(model):
            return Marked(messages, tuple(tools))
        native = is_native_anthropic(model)
        if self._strategy == "turn_aware":
            return self._session(session_id, model, native).mark(messages, tools)
        marked = apply_anthropic_cache_control(messages, self._ttl, native, skip_unmarkable=True)
        return Marked(marked, tuple(tools))

    def status(self, model: str) -> str:
        """Return the start-up line about caching."""
        if model.startswith("embedded/"):
            return f"Prompt caching: no cache markers are sent; {model} caches by itself"
        if not supports_prompt_caching(model):
            return f"Prompt caching: off ({model} does not take cache markers)"
        via = "native Anthropic" if is_native_anthropic(model) else "Claude via OpenRouter"
        ttl = f"{self._ttl} TTL" if self._strategy == "system_and_3" else "turn-aware"
        return f"💾 Prompt caching: ENABLED ({via}, {ttl})"

    def _session(self, session_id: str, model: str, native: bool) -> TurnAwareCache:
        key = (session_id, model)
        session = self._sessions.pop(key, None) or TurnAwareCache(native, self._pauses, self._clock)
        self._sessions[key] = session
        if len(self._sessions) > _REMEMBERED_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return session


class Pauses:
    """Estimates how likely a pause is that only an entry of an hour survives: over 5 minutes, under 60."""

    _MEMORY = 200
    """Requests, of which the older half counts half: habits change."""
    _DOUBT = 5
    """Requests that the expectation weighs as much as."""
    _LEAST = 0.01

    def __init__(self, overall: Pauses | None = None) -> None:
        """`overall` are the pauses of all conversations, which one conversation is expected to resemble."""
        self._overall = overall
        self._requests = 0.0
        self._survivable = 0.0

    def note(self, seconds: float) -> None:
        self._requests += 1
        self._survivable += LIFETIME["5m"] <= seconds < LIFETIME["1h"]
        if self._requests > self._MEMORY:
            self._requests, self._survivable = self._requests / 2, self._survivable / 2
        if self._overall is not None:
            self._overall.note(seconds)

    @property
    def chance(self) -> float:
        expected = self._overall.chance if self._overall is not None else 0.4
        seen = (self._survivable + self._DOUBT * expected) / (self._requests + self._DOUBT)
        return max(self._LEAST, seen)


@dataclass(slots=True)
class _Entry:
    """A cache entry of the provider: everything up to a message."""

    at: int
    message: ChatDict
    tokens: int
    """Rough count of the text up to there."""
    ttl: CacheTTL
    used: float

    def is_live(self, messages: Sequence[ChatDict], now: float) -> bool:
        unchanged = self.at < len(messages) and messages[self.at] == self.message
        return unchanged and now - self.used < LIFETIME[self.ttl]


class TurnAwareCache:
    """`turn_aware`: tracks the cache entries of one conversation and chooses their lifetime.

    Markers: the tools and the system prompt, for an hour; the newest entry that is still alive, so that it is read
    however many blocks have followed; the end of the request. The end is kept for an hour where that is worth it.
    An hour costs more only for what is *new* in the request, and saves *all* that is kept for five minutes so far.
    """

    def __init__(
        self, native_anthropic: bool, overall: Pauses, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._native = native_anthropic
        self._clock = clock
        self._pauses = Pauses(overall)
        self._asked_at: float | None = None
        self._newest: _Entry | None = None
        self._lasting: _Entry | None = None
        """The newest with a lifetime of an hour; often the same as `_newest`."""
        self._counted = 0
        self._tokens = 0

    def mark(self, messages: Sequence[ChatDict], tools: Sequence[ChatDict]) -> Marked:
        now = self._clock()
        if self._asked_at is not None:
            self._pauses.note(now - self._asked_at)
        self._asked_at = now
        self._newest = self._newest if self._newest and self._newest.is_live(messages, now) else None
        self._lasting = self._lasting if self._lasting and self._lasting.is_live(messages, now) else None
        wanted: dict[int, CacheTTL] = dict.fromkeys(_system(messages, self._takes), "1h")
        known = self._newest or self._lasting
        end = next(_backwards(messages, self._takes), None)
        if known is not None:
            known.used = now
            wanted[known.at] = known.ttl
        if end is not None and (known is None or end > known.at):
            written = self._write(messages, end, now)
            wanted[end] = written.ttl
            if known is not None and written.ttl == "1h":
                wanted[known.at] = "1h"  # not written again, only kept in the order that is demanded
        # OpenRouter heeds markers inside content only, and the system prompt's covers the tools.
        if self._native and tools:
            tools = (*tools[:-1], {**tools[-1], "cache_control": _marker("1h")})
        return Marked(_mark(messages, wanted, self._native), tuple(tools))

    def _takes(self, message: ChatDict) -> bool:
        return _can_carry(message, self._native)

    def _write(self, messages: Sequence[ChatDict], end: int, now: float) -> _Entry:
        self._count(messages, end + 1)
        ttl: CacheTTL = "1h" if self._an_hour_is_worth_it() else "5m"
        self._newest = _Entry(end, messages[end], self._tokens, ttl, now)
        if ttl == "1h":
            self._lasting = self._newest
        return self._newest

    def _an_hour_is_worth_it(self) -> bool:
        kept = max((entry.tokens for entry in (self._newest, self._lasting) if entry), default=0)
        kept_for_an_hour = self._lasting.tokens if self._lasting else 0
        extra = (WRITE_PRICE["1h"] - WRITE_PRICE["5m"]) * (self._tokens - kept)
        lost_in_a_pause = (WRITE_PRICE["1h"] - READ_PRICE) * (self._tokens - kept_for_an_hour)
        return extra <= self._pauses.chance * lost_in_a_pause

    def _count(self, messages: Sequence[ChatDict], upto: int) -> None:
        """Count only new messages, because a conversation only grows. The system prompt is kept in any case."""
        if upto < self._counted:
            self._counted = self._tokens = 0
        begin = self._counted or len(_system(messages, self._takes))
        self._tokens += estimate_messages_tokens_rough(messages[begin:upto])
        self._counted = upto


def _system(messages: Sequence[ChatDict], takes: Callable[[ChatDict], bool]) -> list[int]:
    """Return the position of the system prompt, if there is one that takes a marker."""
    return [0] if messages and messages[0].get("role") == "system" and takes(messages[0]) else []


def _backwards(messages: Sequence[ChatDict], takes: Callable[[ChatDict], bool]) -> Iterator[int]:
    """Yield the positions of the other messages that take a marker, newest first."""
    for index in reversed(range(len(messages))):
        if messages[index].get("role") != "system" and takes(messages[index]):
            yield index


def _can_carry(message: ChatDict, native: bool) -> bool:
    """Return whether a marker on it reaches the provider: on an empty message it is lost or refused."""
    return native if message.get("role") == "tool" else bool(message.get("content"))


def _mark(messages: Sequence[ChatDict], wanted: Mapping[int, CacheTTL], native: bool) -> list[ChatDict]:
    marked = list(messages)
    for index, ttl in wanted.items():
        marked[index] = _with_marker(messages[index], ttl, native)
    return marked


def _with_marker(message: ChatDict, ttl: CacheTTL, native: bool) -> ChatDict:
    marker = {"cache_control": _marker(ttl)}
    content = message.get("content")
    if message.get("role") == "tool":
        # OpenRouter hangs on a marker beside a tool message.
        return {**message, **marker} if native else message
    if not content:
        return {**message, **marker}
    if isinstance(content, str):
        return {**message, "content": [{"type": "text", "text": content, **marker}]}
    *first, last = content
    return {**message, "content": [*first, {**last, **marker}]} if isinstance(last, dict) else message


def _marker(ttl: CacheTTL) -> dict[str, Any]:
    if ttl not in LIFETIME:
        raise ValueError(f"A cache entry lives for `5m` or `1h`, not for {ttl!r}.")
    return {"type": "ephemeral"} if ttl == "5m" else {"type": "ephemeral", "ttl": ttl}


def without_markers(request: ChatRequest) -> ChatRequest:
    """Remove the markers for a fallback that would refuse them."""
    if not request.messages or isinstance(request.messages[0].get("content"), str):
        return request
    return replace(request, messages=_bare(request.messages), tools=tuple(_bare(request.tools)))


def _bare(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_bare(item) for item in value]
    if isinstance(value, dict):
        return {key: _bare(item) for key, item in value.items() if key != "cache_control"}
    return value
