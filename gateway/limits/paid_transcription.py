"""Voice as text, counted against the budget of whoever spoke."""

from __future__ import annotations

from dataclasses import replace

from agent.errors import ModelError
from agent.llm import Usage
from agent.llm.budget import Budget, spender
from agent.store import Conversation, SessionStore
from gateway.models.transcription import SpeechToText, Transcript, estimated_tokens


class PaidTranscriber:
    """Called with a file's name and content and the conversation it was sent in. Raises ModelError."""

    def __init__(self, transcribe: SpeechToText, store: SessionStore, budget: Budget) -> None:
        self._transcribe = transcribe
        self._store = store
        self._budget = budget

    async def __call__(self, name: str, data: bytes, conversation: Conversation) -> str:
        await self._budget.check(spender())
        heard = await self._heard(name, data)
        self._budget.note_price(heard.model, _per_token(heard.usage, len(data)))
        await self._store.record_usage(
            conversation.live_session_id,
            heard.usage,
            model=heard.model,
            purpose="transcription",
            spender=spender(),
        )
        if not heard.text:
            raise ModelError("It heard nothing in the recording.")
        return heard.text

    async def _heard(self, name: str, data: bytes) -> Transcript:
        may_cost = True
        try:
            heard = await self._transcribe(name, data)
            may_cost = False
        except ModelError as error:
            may_cost = error.may_cost
            raise
        finally:
            # Whoever does not wait for the answer pays all the same: the provider listens to the end.
            if may_cost:
                tokens = estimated_tokens(len(data))
                self._budget.note_abandoned(spender(), self._transcribe.model, tokens)
        return heard


def _per_token(usage: Usage, size: int) -> Usage:
    """Where seconds were paid for, with tokens as they are estimated for a recording that nobody waits for."""
    return usage if usage.total_tokens else replace(usage, prompt_tokens=max(1, estimated_tokens(size)))
