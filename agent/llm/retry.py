"""A chain of models that behaves like one: it retries, falls back, and continues a stream that was cut.

Text that was shown is never taken back and never shown twice. When a stream breaks after some text, the model is asked
to continue from there, and its repetitions are dropped.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from copy import copy
from dataclasses import dataclass, replace

import stamina
import structlog

from agent.errors import (
    AuthenticationFailed,
    BudgetReached,
    ContextOverflow,
    ModelError,
    ModelNotAvailable,
    QuotaExhausted,
    RateLimited,
    StreamCut,
)
from agent.llm import ChatRequest, Completion, LLMClient, LLMEvent, Retrying, TextChunk
from agent.llm.guards import Call, Guard, Windows
from agent.prompt_caching import supports_prompt_caching, without_markers

log = structlog.get_logger(__name__)

_OF_THIS_MODEL = (AuthenticationFailed, QuotaExhausted, ModelNotAvailable)
"""Trying again does not help, another model might."""

CONTINUE = (
    "Your answer above was cut off by a network failure. Continue it exactly where it stopped, beginning with "
    "the very next character. Do not repeat anything and do not comment on the interruption."
)


TELLING = 12
"""Bytes of letters and digits that count as a repetition. Fewer recur by chance, as in indentation."""


@dataclass(slots=True)
class _Answer:
    """The state of a request over all attempts."""

    request: ChatRequest
    text: str = ""
    """Text that was shown to the user."""
    completion: Completion | None = None
    failure: ModelError | None = None
    _trimmer: OverlapTrimmer | None = None
    """Set while an answer that broke off is continued."""
    _in_pieces: bool = False

    def begin_attempt(self) -> None:
        self.failure = None
        self._trimmer = OverlapTrimmer(self.text) if self.text else None
        self._in_pieces = False

    def add(self, text: str) -> str:
        """Add text, and return what is new in it."""
        self._in_pieces = True
        new = self._trimmer.feed(text) if self._trimmer else text
        self.text += new
        return new

    def finish(self, completion: Completion) -> str:
        """Add the end of the answer, and return what is new in it."""
        new = "" if self._in_pieces else self.add(completion.text)
        rest = self._trimmer.flush() if self._trimmer else ""
        self.text += rest
        self.completion = replace(completion, text=self.text)
        return new + rest

    def next_request(self, client: LLMClient) -> ChatRequest:
        request = self.request if client.supports_tools else replace(self.request, tools=())
        if not supports_prompt_caching(client.model):
            request = without_markers(request)
        if not self.text.strip():
            return request
        so_far = {"role": "assistant", "content": self.text}
        go_on = {"role": "user", "content": CONTINUE}
        return replace(request, messages=[*request.messages, so_far, go_on])

    @property
    def may_be_asked_elsewhere(self) -> bool:
        if isinstance(self.failure, BudgetReached):
            return False  # no model is free of it
        return self.failure is not None and (
            self.failure.transient or isinstance(self.failure, _OF_THIS_MODEL)
        )

    def error(self) -> ModelError:
        """Return the error to raise; text that was shown is in it."""
        assert self.failure is not None
        if not self.text:
            return self.failure
        error = StreamCut(self.failure.detail, partial_text=self.text)
        error.__cause__ = self.failure
        return error


class RetryingLLM:
    def __init__(
        self,
        clients: Sequence[LLMClient],
        *,
        attempts: int = 4,
        first_wait: float = 0.5,
        longest_wait: float = 30.0,
        guards: Sequence[Guard] = (),
        windows: Windows | None = None,
        max_tokens: int | None = None,
    ) -> None:
        """`attempts` are per model. One that asks for more than `longest_wait` seconds of rest is passed over.

        `guards` wrap every attempt. `windows` are the measured windows of the models; `max_tokens` is the configured
        limit of answers, which shrinks with the window.
        """
        if not clients:
            raise ValueError("RetryingLLM needs at least one client.")
        self._clients = tuple(clients)
        self._attempts = attempts
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._guards = guards
        self._windows = windows
        self._max_tokens = max_tokens

    def guarded(self, *guards: Guard, windows: Windows, max_tokens: int | None = None) -> RetryingLLM:
        """Return a chain of the same clients with guards and measured windows."""
        chain = copy(self)
        chain._guards, chain._windows, chain._max_tokens = guards, windows, max_tokens
        return chain

    @property
    def model(self) -> str:
        """The model that is asked first. The completion names the one that answered."""
        return self._clients[0].model

    @property
    def context_length(self) -> int:
        return self._window_of(self._clients[0])

    @property
    def supports_tools(self) -> bool:
        return any(client.supports_tools for client in self._clients)

    @property
    def endpoint(self) -> str:
        return self._clients[0].endpoint

    def stream(self, request: ChatRequest) -> AsyncGenerator[LLMEvent, None]:
        return self._ask(request, streamed=True)

    async def complete(self, request: ChatRequest) -> Completion:
        async with aclosing(self._ask(request, streamed=False)) as events:
            async for event in events:
                if isinstance(event, Completion):
                    return event
        raise AssertionError("a chain ends with a completion or an error")

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    async def _ask(self, request: ChatRequest, *, streamed: bool) -> AsyncGenerator[LLMEvent, None]:
        """Ask model after model, each as often as that may help, until one has answered."""
        answer = _Answer(request)
        for client in self._clients:
            if answer.failure is not None:
                log.warning("model.fallback", model=client.model, error=type(answer.failure).__name__)
                yield Retrying(str(answer.failure), client.model)
            with suppress(ModelError):  # the answer holds it
                async for attempt in self._attempts_at(client):
                    answer.begin_attempt()
                    call = Call(client.model, self._bounded(client, answer.next_request(client)))
                    try:
                        async with AsyncExitStack() as guards:
                            for guard in self._guards:
                                await guards.enter_async_context(guard(call))
                            if not streamed:
                                call.completion = await client.complete(call.request)
                                answer.finish(call.completion)
                                break
                            events = await guards.enter_async_context(aclosing(client.stream(call.request)))
                            async for event in events:
                                if isinstance(event, TextChunk):
                                    call.written.append(event.text)
                                    if new := answer.add(event.text):
                                        yield TextChunk(new)
                                elif isinstance(event, Completion):
                                    call.completion = event
                                    if new := answer.finish(event):
                                        yield TextChunk(new)
                            if call.completion is None:
                                raise StreamCut(f"{client.model} ended it without a completion.")
                        break
                    except ModelError as error:
                        if isinstance(error, ContextOverflow):
                            await self._learn_window(error, client, call.request)
                        answer.failure = error
                    if attempt.num < self._attempts and self._worth_waiting(answer.failure) is not False:
                        log.info("model.retry", model=client.model, error=type(answer.failure).__name__)
                        yield Retrying(str(answer.failure), client.model)
                    with attempt:
                        raise answer.failure
            if answer.completion is not None:
                window = self._window_of(client)
                yield replace(answer.completion, model=client.model, context_length=window)
                return
            if not answer.may_be_asked_elsewhere:
                break
        raise answer.error()

    def _window_of(self, client: LLMClient) -> int:
        if self._windows is None:
            return client.context_length
        return self._windows.of(client.model, client.context_length, client.endpoint)

    def _bounded(self, client: LLMClient, request: ChatRequest) -> ChatRequest:
        """Limit the answer if the window turned out to be small."""
        if self._windows is None:
            return request
        asked = request.max_tokens or self._max_tokens
        longest = self._windows.longest_answer(client, asked)
        return request if longest == asked else replace(request, max_tokens=longest)

    async def _learn_window(self, overflow: ContextOverflow, client: LLMClient, request: ChatRequest) -> None:
        if self._windows is not None:
            overflow.learned = await self._windows.refused(client, request, overflow.limit)
        overflow.model, overflow.context_length = client.model, self._window_of(client)

    def _attempts_at(self, client: LLMClient) -> AsyncIterator[stamina.Attempt]:
        """Yield attempts with pauses between them, as long as another one may help."""
        return stamina.retry_context(
            on=self._worth_waiting,
            attempts=self._attempts,
            timeout=None,
            wait_initial=self._first_wait,
            wait_max=self._longest_wait,
            wait_jitter=self._first_wait,
        ).__aiter__()

    def _worth_waiting(self, error: Exception) -> bool | float:
        """Tell stamina whether to retry: no, yes, or after so many seconds."""
        if isinstance(error, RateLimited) and error.retry_after is not None:
            if error.retry_after > self._longest_wait:
                return False
            # All conversations were told the same moment; spread them.
            return error.retry_after + random.uniform(0, self._first_wait)  # noqa: S311 - guards no secret
        return isinstance(error, ModelError) and error.transient


class OverlapTrimmer:
    """Drops repeated text from a continuation. Text is held back only while it may still be a repetition."""

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._held = ""
        self._at = 0
        """First position of the held text in `shown`; a longer text is never found earlier."""
        self._decided = not shown

    def feed(self, text: str) -> str:
        if self._decided:
            return text
        goes_on = self._shown.startswith(text, self._at + len(self._held))
        self._held += text
        if not goes_on:
            self._at = self._shown.find(self._held, self._at)
        return "" if self._at >= 0 else self.flush()

    def flush(self) -> str:
        """Return the new part of the text held back; nothing is held back after this."""
        held, self._held, self._decided = self._held, "", True
        return held[_overlap(self._shown, held) :]


def _overlap(shown: str, continuation: str) -> int:
    """Return how many characters at the end of `shown` the continuation repeats."""
    length = _longest_overlap(shown[-len(continuation) :], continuation) if continuation else 0
    whole_answer_again = length == len(shown)
    letters = "".join(filter(str.isalnum, shown[len(shown) - length :]))
    return length if whole_answer_again or len(letters.encode()) >= TELLING else 0


def _longest_overlap(text: str, pattern: str) -> int:
    """Return the length of the longest end of `text` that `pattern` begins with, in linear time (KMP)."""
    borders = [0] * len(pattern)
    matched = 0
    for index in range(1, len(pattern)):
        while matched and pattern[index] != pattern[matched]:
            matched = borders[matched - 1]
        matched += pattern[index] == pattern[matched]
        borders[index] = matched
    matched = 0
    for character in text:
        while matched and (matched == len(pattern) or character != pattern[matched]):
            matched = borders[matched - 1]
        matched += character == pattern[matched]
    return matched
