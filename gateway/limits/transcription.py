"""Voice as text, counted against the budget of whoever spoke."""

from __future__ import annotations

from agent.budget import Budget, spender
from agent.store import Conversation, SessionStore
from gateway.models.transcription import Transcriber


class PaidTranscriber:
    """Called with a file's name and content and the conversation it was sent in. Raises ModelError."""

    def __init__(self, transcribe: Transcriber, store: SessionStore, budget: Budget) -> None:
        self._transcribe = transcribe
        self._store = store
        self._budget = budget

    async def __call__(self, name: str, data: bytes, conversation: Conversation) -> str:
        await self._budget.check(spender())
        heard = await self._transcribe(name, data)
        self._budget.note_price(heard.model, heard.usage)
        await self._store.record_usage(
            conversation.live_session_id,
            heard.usage,
            model=heard.model,
            purpose="transcription",
            spender=spender(),
        )
        return heard.text
