"""Guards of every model call: the budget of the person who pays, and the windows learned from refused prompts."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from agent.errors import ModelError
from agent.llm import ChatRequest, Completion, LLMClient, Usage
from agent.store import LearnedWindow, SessionStore
from agent.tokens import estimate_messages_tokens_rough, estimate_text_tokens, estimate_tools_tokens

log = structlog.get_logger(__name__)

KEPT_SECONDS = 7 * 86_400.0
"""After that the believed window is tried again: the server's window may have grown."""
_SMALLEST = 1_024
_DOUBT = 0.7
"""Counts here are estimates. A prompt of this share of the window may have been too long for it."""
_LONGEST_ANSWER = 0.25
"""The share of a learned window that an answer may take; a larger `max_tokens` would leave no room for the prompt."""

_spender: ContextVar[str] = ContextVar("spender", default="")


@dataclass(slots=True)
class Call:
    """One attempt to get an answer from one model."""

    model: str
    request: ChatRequest
    written: list[str] = field(default_factory=list)
    """Pieces of text that have arrived."""
    completion: Completion | None = None


Guard = Callable[[Call], AbstractAsyncContextManager[None]]
"""Wraps each call, failed ones too. It may refuse the call by raising a ModelError."""


def spender() -> str:
    """Return the person whose budget the current code spends; empty if there is none."""
    return _spender.get()


@contextmanager
def spending_for(person: str) -> Iterator[None]:
    """Charge the code inside, and the tasks and threads that it starts, to a person."""
    token = _spender.set(person)
    try:
        yield
    finally:
        _spender.reset(token)


class Budget(Protocol):
    async def check(self, spender: str) -> None:
        """Raises BudgetReached if this person may not spend anything now."""

    def note_price(self, model: str, usage: Usage) -> None:
        """Note the usage of a finished call."""

    def note_abandoned(self, spender: str, model: str, tokens: int) -> None:
        """Note a call that ended before its price was known. `tokens` estimates prompt and answer."""


def budget_guard(budget: Budget) -> Guard:
    """Return a guard that allows calls while the budget lasts. The caller records what a call costs."""

    @asynccontextmanager
    async def guard(call: Call) -> AsyncIterator[None]:
        await budget.check(spender())
        may_cost = True  # a cancelled call costs money, too
        try:
            yield
        except ModelError as error:
            may_cost = error.may_cost or bool(call.written)
            raise
        finally:
            if call.completion is not None:
                budget.note_price(call.completion.model, call.completion.usage)
            elif may_cost:
                tokens = estimated_size(call.request) + estimate_text_tokens("".join(call.written))
                budget.note_abandoned(spender(), call.model, tokens)

    return guard


class Windows:
    """The windows that were found to be smaller than believed: local servers often serve less than a model can hold."""

    def __init__(
        self,
        store: SessionStore,
        learned: Iterable[LearnedWindow] = (),
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._learned = {(window.model, window.endpoint): window for window in learned}
        self._clock = clock

    @classmethod
    async def load(cls, store: SessionStore) -> Windows:
        return cls(store, await store.learned_windows())

    def learned(self, model: str, believed: int, endpoint: str = "") -> LearnedWindow | None:
        """Return the learned window of a model, if it still counts."""
        window = self._learned.get((model, endpoint))
        return window if window and counts(window, believed, self._clock()) else None

    def of(self, model: str, believed: int, endpoint: str = "") -> int:
        window = self.learned(model, believed, endpoint)
        return window.tokens if window else believed

    def longest_answer(self, client: LLMClient, asked: int | None) -> int | None:
        """Return the `max_tokens` that leaves room for the prompt in a learned window."""
        window = self.learned(client.model, client.context_length, client.endpoint)
        return min(asked, int(window.tokens * _LONGEST_ANSWER)) if window and asked else asked

    async def refused(
        self, client: LLMClient, request: ChatRequest, limit: int | None
    ) -> LearnedWindow | None:
        """Learn from a prompt that did not fit. None if it would not have fitted the known window either."""
        model, believed, endpoint = client.model, client.context_length, client.endpoint
        known, tokens = self.of(model, believed, endpoint), estimated_size(request)
        named = (limit or 0) >= _SMALLEST
        if limit and named:
            smaller = limit
        elif tokens < _SMALLEST or tokens >= known * _DOUBT:
            return None
        else:
            smaller = max(_SMALLEST, min(known // 2, tokens))
        if smaller >= known:
            return None
        window = LearnedWindow(model, believed, smaller, named, self._clock(), endpoint)
        self._learned[model, endpoint] = window
        log.warning(
            "model.window_is_smaller",
            model=model,
            endpoint=endpoint,
            believed=believed,
            window=smaller,
            named=named,
        )
        await self._store.learn_window(window)
        return window

    async def withdraw(self, window: LearnedWindow) -> None:
        """Forget a guess that did not help: the provider refused for another reason than the length."""
        key = window.model, window.endpoint
        if not window.named and self._learned.get(key) == window:
            del self._learned[key]
            log.info("model.window_guess_withdrawn", model=window.model, window=window.tokens)
            await self._store.forget_window(window.key)


def counts(window: LearnedWindow, believed: int, now: float) -> bool:
    return window.believed == believed and now - window.learned_at < KEPT_SECONDS


def estimated_size(request: ChatRequest) -> int:
    """Estimate the tokens of the whole prompt."""
    return estimate_messages_tokens_rough(request.messages) + estimate_tools_tokens(request.tools)
