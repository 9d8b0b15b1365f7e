"""A model that is asked while somebody counts: every attempt, whatever it is for."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING

from agent.llm import ChatRequest, Completion, LLMClient, LLMEvent, Wrapped
from agent.models.retry import RetryingLLM
from gateway.observability.definitions import Meters
from gateway.observability.tracing import Span, Tracing

if TYPE_CHECKING:
    from gateway.models.transcription import Transcribes, Transcript


def observed_llm(llm: LLMClient, meters: Meters, tracing: Tracing) -> LLMClient:
    """With a chain, each of its attempts."""
    if isinstance(llm, RetryingLLM):
        return llm.around_each(lambda client: ObservedLLM(client, meters, tracing))
    return ObservedLLM(llm, meters, tracing)


class ObservedLLM(Wrapped):
    def __init__(self, llm: LLMClient, meters: Meters, tracing: Tracing) -> None:
        super().__init__(llm)
        self._call = _Calls(meters, tracing)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[LLMEvent, None]:
        with self._call.of(self.model, request.purpose) as call:
            async with aclosing(self._llm.stream(request)) as events:
                async for event in events:
                    if isinstance(event, Completion):
                        call.came(event)
                    yield event

    async def complete(self, request: ChatRequest) -> Completion:
        with self._call.of(self.model, request.purpose) as call:
            completion = await self._llm.complete(request)
            call.came(completion)
            return completion

    async def close(self) -> None:
        await self._llm.close()


class ObservedTranscriber:
    """Voice costs money, too."""

    def __init__(self, transcribe: Transcribes, meters: Meters, tracing: Tracing) -> None:
        self._transcribe = transcribe
        self._call = _Calls(meters, tracing)

    @property
    def model(self) -> str:
        return self._transcribe.model

    async def __call__(self, name: str, data: bytes) -> Transcript:
        with self._call.of(self.model, "transcription") as call:
            heard = await self._transcribe(name, data)
            call.came(Completion(usage=heard.usage))
            return heard


class _Calls:
    def __init__(self, meters: Meters, tracing: Tracing) -> None:
        self._meters = meters
        self._tracing = tracing

    @contextmanager
    def of(self, model: str, purpose: str) -> Iterator[_Call]:
        """Not made the current span: the pieces of a stream are read in whatever context its reader has."""
        facts = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model, "hermes.purpose": purpose}
        span, began, outcome = self._tracing.begin("model call", facts), time.perf_counter(), "stopped"
        call = _Call(self._meters, span, model, purpose)
        try:
            yield call
            outcome = "ok"
        except Exception as error:
            outcome = type(error).__name__
            raise
        finally:
            # Who has the whole answer need not read on to the end of the stream.
            outcome = "ok" if call.has_come else outcome
            self._meters.asked(model, purpose, outcome, time.perf_counter() - began)
            span.end(outcome, failed=outcome not in ("ok", "stopped"))


class _Call:
    def __init__(self, meters: Meters, span: Span, model: str, purpose: str) -> None:
        self._meters = meters
        self._span = span
        self._model = model
        self._purpose = purpose
        self.has_come = False

    def came(self, completion: Completion) -> None:
        self.has_come = True
        usage = completion.usage
        self._meters.used(self._model, self._purpose, usage)
        self._span.note(
            {
                "gen_ai.usage.input_tokens": usage.prompt_tokens,
                "gen_ai.usage.output_tokens": usage.completion_tokens,
                "hermes.cached_tokens": usage.cache_read_tokens,
            }
        )
