"""Anthropic prompt caching: which parts of a request carry a `cache_control` marker.

A marker asks the provider to keep everything up to it; a later request reads it back at a tenth of the price. At
most four are allowed, a longer TTL must come before a shorter one, and a read looks back at most 20 blocks from a
marker. Nothing here changes its input; only what is marked is copied.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent.messages import ChatDict

CacheTTL = Literal["5m", "1h"]
Strategy = Literal["system_and_3", "turn_aware"]

_REMEMBERED_SESSIONS = 1_000
_SHORT_LIVED = 300.0
"""Seconds a 5-minute entry lives. A person who pauses longer finds it gone."""


def supports_prompt_caching(model: str) -> bool:
    """Claude on Anthropic's own API or through OpenRouter; other routes do not take markers."""
    *route, name = model.lower().split("/")
    return "claude" in name and route in ([], ["anthropic"], ["openrouter"], ["openrouter", "anthropic"])


def is_native_anthropic(model: str) -> bool:
    """Whether Anthropic itself is asked: only there may a tool message carry a marker."""
    return supports_prompt_caching(model) and not model.lower().startswith("openrouter/")


def apply_anthropic_cache_control(
    messages: Sequence[ChatDict], cache_ttl: CacheTTL = "5m", native_anthropic: bool = False
) -> list[ChatDict]:
    """`system_and_3`: the system prompt and the last three other messages are marked."""
    system = [0] if messages and messages[0].get("role") == "system" else []
    others = range(len(system), len(messages))
    return _mark(messages, dict.fromkeys((*system, *others[-3:]), cache_ttl), native_anthropic)


@dataclass(frozen=True, slots=True)
class Marked:
    messages: list[ChatDict]
    tools: tuple[ChatDict, ...]


class TurnAwareCache:
    """`turn_aware`: remembers where a conversation's last request wrote, so that the next one reads there.

    Up to the newest user message entries live an hour, because people pause; what a tool loop adds lives five
    minutes, because the next step follows at once. After three short pauses five minutes do everywhere.
    Markers: tools, system prompt, one earlier position that is surely in the cache, the end.
    """

    def __init__(self, *, native_anthropic: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._native = native_anthropic
        self._clock = clock
        self._asked_at: float | None = None
        self._last_write: int | None = None
        self._last_user: int | None = None
        self._pauses: list[float] = []

    def mark(self, messages: Sequence[ChatDict], tools: Sequence[ChatDict]) -> Marked:
        user = _newest(messages, "user")
        end = self._last_markable(messages)
        pause = self._clock() - self._asked_at if self._asked_at is not None else 0.0
        if user != self._last_user and self._asked_at is not None:
            self._pauses = [*self._pauses[-2:], pause]
        lasting = self._lasting_ttl()
        anchor = self._last_write if pause < _SHORT_LIVED else self._last_user
        wanted: dict[int, CacheTTL] = {}
        for index in (0, anchor, end):
            if index is not None:
                wanted[index] = lasting if index <= user else "5m"
        self._asked_at, self._last_write, self._last_user = self._clock(), end, user
        return Marked(_mark(messages, wanted, self._native), _mark_last_tool(tools, lasting))

    def _lasting_ttl(self) -> CacheTTL:
        quick = len(self._pauses) == 3 and max(self._pauses) < _SHORT_LIVED
        return "5m" if quick else "1h"

    def _last_markable(self, messages: Sequence[ChatDict]) -> int | None:
        backwards = reversed(range(len(messages)))
        return next((index for index in backwards if _can_carry(messages[index], self._native)), None)


class PromptCaching:
    """Marks the requests of all conversations, where the model takes markers at all."""

    def __init__(self, *, strategy: Strategy = "system_and_3", cache_ttl: CacheTTL = "5m") -> None:
        self._strategy = strategy
        self._ttl = cache_ttl
        self._sessions: dict[str, TurnAwareCache] = {}
        """By session: after a split positions no longer mean the same messages. The oldest are dropped."""

    def mark(
        self, session_id: str, model: str, messages: list[ChatDict], tools: Sequence[ChatDict]
    ) -> Marked:
        if not supports_prompt_caching(model):
            return Marked(messages, tuple(tools))
        native = is_native_anthropic(model)
        if self._strategy == "system_and_3":
            return Marked(apply_anthropic_cache_control(messages, self._ttl, native), tuple(tools))
        cache = self._sessions.pop(session_id, None) or TurnAwareCache(native_anthropic=native)
        self._sessions[session_id] = cache
        if len(self._sessions) > _REMEMBERED_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return cache.mark(messages, tools)

    def status(self, model: str) -> str:
        """The line at the start."""
        if not supports_prompt_caching(model):
            return f"Prompt caching: off ({model} does not take cache markers)"
        via = "native Anthropic" if is_native_anthropic(model) else "Claude via OpenRouter"
        ttl = f"{self._ttl} TTL" if self._strategy == "system_and_3" else "turn-aware"
        return f"💾 Prompt caching: ENABLED ({via}, {ttl})"


def _newest(messages: Sequence[ChatDict], role: str) -> int:
    return next((i for i in reversed(range(len(messages))) if messages[i].get("role") == role), -1)


def _can_carry(message: ChatDict, native: bool) -> bool:
    return native if message.get("role") == "tool" else bool(message.get("content")) or native


def _mark(messages: Sequence[ChatDict], wanted: dict[int, CacheTTL], native: bool) -> list[ChatDict]:
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


def _mark_last_tool(tools: Sequence[ChatDict], ttl: CacheTTL) -> tuple[ChatDict, ...]:
    return (*tools[:-1], {**tools[-1], "cache_control": _marker(ttl)}) if tools else ()


def _marker(ttl: CacheTTL) -> dict[str, Any]:
    return {"type": "ephemeral"} if ttl == "5m" else {"type": "ephemeral", "ttl": ttl}
