"""Counts and traces every call of a model."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from agent.llm import Completion
from agent.llm.guards import Call
from gateway.observability.definitions import Meters
from gateway.observability.tracing import Span, Tracing

if TYPE_CHECKING:
    from gateway.models.transcription import SpeechToText, Transcript


class ObservedTranscriber:
    """A transcriber whose calls are counted and traced."""

    def __init__(self, transcribe: SpeechToText, meters: Meters, tracing: Tracing) -> None:
        self._transcribe = transcribe
        self._recorder = CallRecorder(meters, tracing)

    @property
    def model(self) -> str:
        return self._transcribe.model

    async def __call__(self, name: str, data: bytes) -> Transcript:
        with self._recorder.record(self.model, "transcription") as call:
            transcript = await self._transcribe(name, data)
            call.complete(Completion(usage=transcript.usage))
            return transcript


class CallRecorder:
    def __init__(self, meters: Meters, tracing: Tracing) -> None:
        self._meters = meters
        self._tracing = tracing

    @asynccontextmanager
    async def guard(self, call: Call) -> AsyncIterator[None]:
        """Guard that counts and traces every call of a model, failed ones too."""
        with self.record(call.model, call.request.purpose) as recorded:
            try:
                yield
            finally:
                if call.completion is not None:
                    recorded.complete(call.completion)

    @contextmanager
    def record(self, model: str, purpose: str) -> Iterator[_Call]:
        """Count and trace one call. Its span is not made the current one: a stream may be read in another context."""
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": model,
            "hermes.purpose": purpose,
        }
        span, began = self._tracing.start_span("model call", attributes), time.perf_counter()
        call = _Call(self._meters, span, model, purpose)
        has_ended = False
        try:
            yield call
            has_ended = True
        finally:
            # A reader that has the complete answer may close the stream before its end.
            outcome = "ok" if has_ended or call.is_complete else _outcome_of(sys.exception())
            self._meters.count_call(model, purpose, outcome, time.perf_counter() - began)
            span.end(outcome, failed=outcome not in ("ok", "stopped"))


def _outcome_of(error: BaseException | None) -> str:
    """Return the name of the error; a cancel and a closed stream count as `stopped`."""
    return type(error).__name__ if isinstance(error, Exception) else "stopped"


class _Call:
    def __init__(self, meters: Meters, span: Span, model: str, purpose: str) -> None:
        self._meters = meters
        self._span = span
        self._model = model
        self._purpose = purpose
        self.is_complete = False

    def complete(self, completion: Completion) -> None:
        self.is_complete = True
        usage = completion.usage
        self._meters.count_usage(self._model, self._purpose, usage)
        self._span.set_attributes(
            {
                "gen_ai.usage.input_tokens": usage.prompt_tokens,
                "gen_ai.usage.output_tokens": usage.completion_tokens,
                "hermes.cached_tokens": usage.cache_read_tokens,
            }
        )
