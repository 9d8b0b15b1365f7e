"""Voice as text, by the model of `auxiliary.transcription`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol

from agent.llm import Usage
from gateway.config.schema import TranscriptionConfig
from gateway.models.errors import translate
from gateway.models.litellm_runtime import load_litellm
from gateway.models.selection import is_local

_SECONDS = 120.0
_BYTES_PER_TOKEN = 250
"""Of a recording whose length nobody tells: speech as chats record it, priced as most providers price a minute."""


@dataclass(frozen=True, slots=True)
class Transcript:
    text: str
    """Empty where nobody spoke, which is paid for like any other."""
    model: str
    usage: Usage


class SpeechToText(Protocol):
    @property
    def model(self) -> str: ...

    async def __call__(self, name: str, data: bytes) -> Transcript: ...


class Transcriber:
    """Called with a file's name and content, gives what was said in it and what it cost. Raises ModelError."""

    def __init__(self, settings: TranscriptionConfig) -> None:
        self._settings = settings

    @property
    def model(self) -> str:
        return self._settings.model or ""

    async def __call__(self, name: str, data: bytes) -> Transcript:
        library = await load_litellm()
        settings = self._settings
        key = settings.api_key.get_secret_value() if settings.api_key else None
        try:
            # In a thread: its asynchronous form reads files on the event loop.
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
            raise translate(error, model=settings.model or "", api_key=key) from error
        usage = self._usage(library.litellm.model_cost, answer, len(data))
        return Transcript(str(answer.text).strip(), self.model, usage)

    def _usage(self, prices: dict[str, Any], answer: Any, size: int) -> Usage:
        cost = _cost(prices, answer, self._settings.model or "")
        if cost is None and is_local(self._settings.base_url):
            cost = 0.0
        told = getattr(answer, "usage", None)
        tokens = getattr(told, "input_tokens", None), getattr(told, "output_tokens", None)
        if tokens[0] is None:
            tokens = (estimated_tokens(size) if cost is None else 0), 0
        return Usage(tokens[0] or 0, tokens[1] or 0, cost_usd=cost)


def estimated_tokens(size: int) -> int:
    """Of a recording of so many bytes."""
    return size // _BYTES_PER_TOKEN


def _cost(prices: dict[str, Any], answer: Any, model: str) -> float | None:
    """What litellm makes of the tokens, else the seconds that were reported at the price in its table."""
    by_tokens = answer._hidden_params.get("response_cost")
    if by_tokens is not None:
        return float(by_tokens)
    seconds = getattr(getattr(answer, "usage", None), "seconds", None)
    listed = prices.get(model) or prices.get(model.partition("/")[2]) or {}
    price = listed.get("input_cost_per_second")
    return None if seconds is None or price is None else float(seconds * price)


def transcriber(settings: TranscriptionConfig) -> Transcriber | None:
    return Transcriber(settings) if settings.model else None
