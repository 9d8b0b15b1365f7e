"""Transcribes voice messages with the model of `auxiliary.transcription`, within the budget of the speaker."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any, Protocol

from agent.errors import ModelError
from agent.llm import Usage
from agent.llm.guards import Budget, spender
from agent.store import Conversation, SessionStore
from gateway.config.schema import TranscriptionConfig
from gateway.models.errors import translate
from gateway.models.litellm_runtime import load_litellm
from gateway.models.selection import is_local

_SECONDS = 120.0
_BYTES_PER_TOKEN = 250
"""Estimate for a recording of unknown length: speech as chats record it, at the price per minute of most providers."""


@dataclass(frozen=True, slots=True)
class Transcript:
    text: str
    """Empty if the recording has no speech; such a call costs the same."""
    model: str
    usage: Usage


class SpeechToText(Protocol):
    @property
    def model(self) -> str: ...

    async def __call__(self, name: str, data: bytes) -> Transcript: ...


class Transcriber:
    """Transcribes a file, given its name and content. Raises ModelError."""

    def __init__(self, settings: TranscriptionConfig) -> None:
        self._settings = settings
        self.model = settings.model or ""

    async def __call__(self, name: str, data: bytes) -> Transcript:
        library, settings = await load_litellm(), self._settings
        key = settings.api_key.get_secret_value() if settings.api_key else None
        try:
            # In a thread: litellm's async function reads files on the event loop.
            answer = await asyncio.to_thread(
                library.litellm.transcription,
                model=settings.model,
                file=(name, data),
                api_base=settings.base_url,
                api_key=key,
                max_retries=0,
                timeout=_SECONDS,
            )
        except library.errors as error:
            raise translate(error, model=self.model, api_key=key) from error
        usage = self._usage(library.litellm.model_cost, answer, len(data))
        return Transcript(str(answer.text).strip(), self.model, usage)

    def _usage(self, prices: dict[str, Any], answer: Any, size: int) -> Usage:
        cost = _cost(prices, answer, self.model)
        if cost is None and is_local(self._settings.base_url):
            cost = 0.0
        reported = getattr(answer, "usage", None)
        tokens = getattr(reported, "input_tokens", None), getattr(reported, "output_tokens", None)
        if tokens[0] is None:
            tokens = (estimated_tokens(size) if cost is None else 0), 0
        return Usage(tokens[0] or 0, tokens[1] or 0, cost_usd=cost)


def estimated_tokens(size: int) -> int:
    """Estimate the tokens of a recording of `size` bytes."""
    return size // _BYTES_PER_TOKEN


def _cost(prices: dict[str, Any], answer: Any, model: str) -> float | None:
    """Return litellm's cost by tokens, else the reported seconds at the price in its table."""
    by_tokens = answer._hidden_params.get("response_cost")
    if by_tokens is not None:
        return float(by_tokens)
    seconds = getattr(getattr(answer, "usage", None), "seconds", None)
    listed = prices.get(model) or prices.get(model.partition("/")[2]) or {}
    price = listed.get("input_cost_per_second")
    return None if seconds is None or price is None else float(seconds * price)


def transcriber(settings: TranscriptionConfig) -> Transcriber | None:
    return Transcriber(settings) if settings.model else None


@dataclass(frozen=True, slots=True)
class PaidTranscriber:
    """Transcribes a file of a conversation within the budget. Raises ModelError."""

    transcribe: SpeechToText
    store: SessionStore
    budget: Budget

    async def __call__(self, name: str, data: bytes, conversation: Conversation) -> str:
        await self.budget.check(spender())
        estimated, may_cost = estimated_tokens(len(data)), True
        try:
            transcript = await self.transcribe(name, data)
            may_cost = False
        except ModelError as error:
            may_cost = error.may_cost
            raise
        finally:
            # A cancelled call costs the same: the provider transcribes the whole recording.
            if may_cost:
                self.budget.note_abandoned(spender(), self.transcribe.model, estimated)
        usage = transcript.usage
        if not usage.total_tokens:  # it is billed by seconds
            usage = replace(usage, prompt_tokens=max(1, estimated))
        self.budget.note_price(transcript.model, usage)
        await self.store.record_usage(
            conversation.live_session_id,
            transcript.usage,
            model=transcript.model,
            purpose="transcription",
            spender=spender(),
        )
        if not transcript.text:
            raise ModelError("It found no speech in the recording.")
        return transcript.text
