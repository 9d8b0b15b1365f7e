"""The port to what an operator wants to know: questions over all conversations, answered by the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from gateway.inbox import Parked
from gateway.insight_conversations import ConversationInsight

By = Literal["day", "person", "model"]


@dataclass(frozen=True, slots=True)
class Spending:
    """What the calls of one model came to, for one person on one day; or of several."""

    day: str
    """In local time: `2026-11-17`. Empty where days were added up."""
    person: str
    """Whose budget they counted against; empty where nobody asked, or where people were added up."""
    model: str
    calls: int
    prompt_tokens: int
    """Those from the cache included."""
    completion_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    usd: float
    """Of the calls with a price."""
    unpriced_calls: int


@dataclass(slots=True)
class Total:
    """What many of them come to: all of a day, a person or a model."""

    name: str
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    usd: float = 0.0
    unpriced_calls: int = 0

    def add(self, spending: Spending | Total) -> None:
        self.calls += spending.calls
        self.prompt_tokens += spending.prompt_tokens
        self.completion_tokens += spending.completion_tokens
        self.cache_read_tokens += spending.cache_read_tokens
        self.cache_write_tokens += spending.cache_write_tokens
        self.usd += spending.usd
        self.unpriced_calls += spending.unpriced_calls


@dataclass(frozen=True, slots=True)
class Standing:
    """How much is under way, and how much was given up on."""

    waiting: int
    """Messages that are not dealt with yet."""
    waiting_since: float | None
    """When the oldest of them came."""
    on_its_way: int
    """Replies that have not arrived yet."""
    parked_messages: int
    parked_replies: int
    compactions: int
    """Since the time that was asked for."""
    freed_tokens: int
    """By those."""


@dataclass(frozen=True, slots=True)
class GivenUp(Parked):
    """With what it says."""

    text: str
    """Its beginning; the name of a file. Empty where nothing is left of it."""


class Insight(Protocol):
    @property
    def conversations(self) -> ConversationInsight: ...

    async def spending(self, *, since: float, by: Sequence[By]) -> list[Spending]:
        """From the day of that moment on, a sum for each of these; oldest day first."""
        ...

    async def standing(self, *, since: float) -> Standing: ...

    async def given_up(self, *, limit: int) -> list[GivenUp]:
        """The newest first."""
        ...
