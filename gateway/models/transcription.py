"""Voice as text, by the model of `auxiliary.transcription`."""

from __future__ import annotations

import asyncio

from agent.errors import ModelError
from gateway.config.schema import TranscriptionConfig
from gateway.models.error_map import translate
from gateway.models.litellm_library import load_litellm

_SECONDS = 120.0


class Transcriber:
    """Called with a file's name and content, gives what was said in it. Raises ModelError."""

    def __init__(self, settings: TranscriptionConfig) -> None:
        self._settings = settings

    async def __call__(self, name: str, data: bytes) -> str:
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
        text = str(answer.text).strip()
        if not text:
            raise ModelError("It heard nothing in the recording.")
        return text


def transcriber(settings: TranscriptionConfig) -> Transcriber | None:
    return Transcriber(settings) if settings.model else None
