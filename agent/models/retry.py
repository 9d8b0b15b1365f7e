"""A chain of models that behaves like one: it retries, falls back, and goes on where a stream was cut.

What the person has seen is never taken back and never shown twice. When a stream breaks after some text, the
model is asked to go on from there, and what it repeats of its own words is dropped.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace

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
from agent.models.overlap import OverlapTrimmer
from agent.prompt_caching import supports_prompt_caching, without_markers

log = structlog.get_logger(__name__)

_OF_THIS_MODEL = (AuthenticationFailed, QuotaExhausted, ModelNotAvailable)
"""Trying again does not help, another model might."""

CONTINUE = (
    "Your answer above was cut off by a network failure. Continue it exactly where it stopped, beginning with "
    "the very next character. Do not repeat anything and do not comment on the interruption."
)


@dataclass(slots=True)
class _Answer:
    """What has become of a request so far, over all attempts."""

    request: ChatRequest
    text: str = ""
    """What the person has seen."""
    completion: Completion | None = None
    failure: ModelError | None = None
    _trimmer: OverlapTrimmer = field(default_factory=lambda: OverlapTrimmer(""))
    _in_pieces: bool = False

    def begin(self) -> None:
        """A new attempt."""
        self.failure = None
        self._trimmer = OverlapTrimmer(self.text)
        self._in_pieces = False

    def take(self, event: TextChunk | Completion) -> str:
        """Adds what is new in the event, and returns it."""
        if isinstance(event, TextChunk):
            self._in_pieces = True
            new = self._trimmer.feed(event.text)
        else:
            whole = "" if self._in_pieces else self._trimmer.feed(event.text)
            new = whole + self._trimmer.flush()
        self.text += new
        if isinstance(event, Completion):
            self.completion = replace(event, text=self.text)
        return new

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
        """Why there is no completion. Text that was shown is in it."""
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
    ) -> None:
        """`attempts` are per model. One that asks for more than `longest_wait` seconds of rest is passed over."""
        if not clients:
            raise ValueError("RetryingLLM needs at least one client.")
        self._clients = tuple(clients)
        self._attempts = attempts
        self._first_wait = first_wait
        self._longest_wait = longest_wait

    def around_each(self, wrap: Callable[[LLMClient], LLMClient]) -> RetryingLLM:
        """The same chain, with something around each of its models: so it is there at every attempt."""
        return RetryingLLM(
            [wrap(client) for client in self._clients],
            attempts=self._attempts,
            first_wait=self._first_wait,
            longest_wait=self._longest_wait,
        )

    @property
    def model(self) -> str:
        """The model that is asked first. Which one answered is in the completion: other conversations ask as well."""
        return self._clients[0].model

    @property
    def context_length(self) -> int:
        return self._clients[0].context_length

    @property
    def supports_tools(self) -> bool:
        return any(client.supports_tools for client in self._clients)

    @property
    def endpoint(self) -> str:
        return self._clients[0].endpoint

    def stream(self, request: ChatRequest) -> AsyncGenerator[LLMEvent, None]:
        return self._ask_in_turn(request, streamed=True)

    async def complete(self, request: ChatRequest) -> Completion:
        async with aclosing(self._ask_in_turn(request, streamed=False)) as events:
            async for event in events:
                if isinstance(event, Completion):
                    return event
        raise AssertionError("a chain ends with a completion or an error")

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    async def _ask_in_turn(self, request: ChatRequest, *, streamed: bool) -> AsyncGenerator[LLMEvent, None]:
        """Model after model, until one has answered."""
        answer = _Answer(request)
        for client in self._clients:
            if answer.failure is not None:
                log.warning("model.fallback", model=client.model, error=type(answer.failure).__name__)
                yield Retrying(str(answer.failure), client.model)
            async with aclosing(self._ask_again_and_again(client, answer, streamed)) as events:
                async for event in events:
                    yield event
            if answer.completion is not None:
                yield replace(answer.completion, model=client.model, context_length=client.context_length)
                return
            if not answer.may_be_asked_elsewhere:
                break
        raise answer.error()

    async def _ask_again_and_again(
        self, client: LLMClient, answer: _Answer, streamed: bool
    ) -> AsyncGenerator[LLMEvent, None]:
        """One model, until it has answered, its attempts are used up, or trying again is of no use."""
        with suppress(ModelError):  # the answer holds it
            async for attempt in stamina.retry_context(
                on=self._worth_waiting,
                attempts=self._attempts,
                timeout=None,
                wait_initial=self._first_wait,
                wait_max=self._longest_wait,
                wait_jitter=self._first_wait,
            ):
                async with aclosing(_ask_once(client, answer, streamed)) as events:
                    async for event in events:
                        yield event
                if answer.failure is None:
                    return
                if attempt.num < self._attempts and self._worth_waiting(answer.failure) is not False:
                    log.info("model.retry", model=client.model, error=type(answer.failure).__name__)
                    yield Retrying(str(answer.failure), client.model)
                with attempt:
                    raise answer.failure

    def _worth_waiting(self, error: Exception) -> bool | float:
        """For stamina: no, yes, or so many seconds."""
        if isinstance(error, RateLimited) and error.retry_after is not None:
            if error.retry_after > self._longest_wait:
                return False
            # All conversations were told the same moment; spread them.
            return error.retry_after + random.uniform(0, self._first_wait)  # noqa: S311 - guards no secret
        return isinstance(error, ModelError) and error.transient


async def _ask_once(client: LLMClient, answer: _Answer, streamed: bool) -> AsyncGenerator[LLMEvent, None]:
    """One call. Leaves a completion or a failure in `answer`."""
    answer.begin()
    try:
        async with aclosing(_events(client, answer.next_request(client), streamed)) as events:
            async for event in events:
                if isinstance(event, Retrying):
                    yield event
                elif new := answer.take(event):
                    yield TextChunk(new)
        if answer.completion is None:
            raise StreamCut(f"{client.model} ended it without a completion.")
    except ModelError as error:
        if isinstance(error, ContextOverflow):
            error.model, error.context_length = client.model, client.context_length
        answer.failure = error


async def _events(client: LLMClient, request: ChatRequest, streamed: bool) -> AsyncGenerator[LLMEvent, None]:
    if not streamed:
        yield await client.complete(request)
        return
    stream = client.stream(request)
    try:
        async for event in stream:
            yield event
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
