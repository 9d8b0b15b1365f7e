"""Transcription that counts against the speaker's budget."""

from __future__ import annotations

from dataclasses import replace

from agent.errors import ModelError
from agent.llm import Usage
from agent.llm.budget import Budget, spender
from agent.store import Conversation, SessionStore
from gateway.models.transcription import SpeechToText, Transcript, estimated_tokens


class PaidTranscriber:
    """Transcribes a file of a conversation within the budget. Raises ModelError."""

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
            raise ModelError("It found no speech in the recording.")
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
            # A cancelled call costs the same: the provider transcribes the whole recording.
            if may_cost:
                tokens = estimated_tokens(len(data))
                self._budget.note_abandoned(spender(), self._transcribe.model, tokens)
        return heard


def _per_token(usage: Usage, size: int) -> Usage:
    """Add estimated tokens to a usage that is billed by seconds."""
    return usage if usage.total_tokens else replace(usage, prompt_tokens=max(1, estimated_tokens(size)))
