"""Learns from refusals how large a model's window really is: local servers often serve less than a model could hold."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import replace

import structlog

from agent.errors import ContextOverflow
from agent.llm import ChatRequest, Completion, LLMClient, LLMEvent, WrappedLLM
from agent.llm.retry import RetryingLLM
from agent.store import LearnedWindow, SessionStore
from agent.tokens import estimate_messages_tokens_rough, estimate_tools_tokens

log = structlog.get_logger(__name__)

KEPT_SECONDS = 7 * 86_400.0
"""After that the believed window is tried again: the server may have been given more."""
_SMALLEST = 1_024
_DOUBT = 0.7
"""Counts here are estimates. A prompt of this share of the window may have been too long for it."""
_LONGEST_ANSWER = 0.25
"""The share of a learned window that an answer may take; a larger `max_tokens` would leave no room for the prompt."""


class Windows:
    """The windows that were found to be smaller than believed, by model. Several conversations share them."""

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

    async def refused(
        self, model: str, believed: int, *, tokens: int, limit: int | None, endpoint: str = ""
    ) -> LearnedWindow | None:
        """Learns from a prompt of about so many tokens that did not fit. None: it would not have fitted anyway."""
        known = self.of(model, believed, endpoint)
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
        """Forgets a guess that did not help: then the length was not what the provider minded."""
        at = window.model, window.endpoint
        if not window.named and self._learned.get(at) == window:
            del self._learned[at]
            log.info("model.window_guess_withdrawn", model=window.model, window=window.tokens)
            await self._store.forget_window(window.key)


def counts(window: LearnedWindow, believed: int, now: float) -> bool:
    return window.believed == believed and now - window.learned_at < KEPT_SECONDS


def measured(llm: LLMClient, windows: Windows, *, max_tokens: int | None = None) -> LLMClient:
    """Wrap a client or chain so that its window follows what was learned. `max_tokens` is the configured limit of
    answers."""
    if isinstance(llm, RetryingLLM):
        return llm.around_each(lambda client: MeasuredLLM(client, windows, max_tokens))
    return MeasuredLLM(llm, windows, max_tokens)


class MeasuredLLM(WrappedLLM):
    """A model whose window shrinks when it refuses what should have fitted."""

    def __init__(self, llm: LLMClient, windows: Windows, max_tokens: int | None) -> None:
        super().__init__(llm)
        self._windows = windows
        self._max_tokens = max_tokens

    @property
    def context_length(self) -> int:
        return self._windows.of(self.model, self._llm.context_length, self.endpoint)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[LLMEvent, None]:
        try:
            async with aclosing(self._llm.stream(self._bounded(request))) as events:
                async for event in events:
                    yield event
        except ContextOverflow as overflow:
            await self._learn(request, overflow)
            raise

    async def complete(self, request: ChatRequest) -> Completion:
        try:
            return await self._llm.complete(self._bounded(request))
        except ContextOverflow as overflow:
            await self._learn(request, overflow)
            raise

    async def close(self) -> None:
        await self._llm.close()

    def _bounded(self, request: ChatRequest) -> ChatRequest:
        asked = request.max_tokens or self._max_tokens
        window = self._windows.learned(self.model, self._llm.context_length, self.endpoint)
        if asked is None or window is None:
            return request
        return replace(request, max_tokens=min(asked, int(window.tokens * _LONGEST_ANSWER)))

    async def _learn(self, request: ChatRequest, overflow: ContextOverflow) -> None:
        overflow.learned = await self._windows.refused(
            self.model,
            self._llm.context_length,
            tokens=estimated_size(request),
            limit=overflow.limit,
            endpoint=self.endpoint,
        )


def estimated_size(request: ChatRequest) -> int:
    """Tokens of the whole prompt."""
    return estimate_messages_tokens_rough(request.messages) + estimate_tools_tokens(request.tools)
