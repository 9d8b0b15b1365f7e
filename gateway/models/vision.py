"""Which models see images."""

from __future__ import annotations

import asyncio

from agent.models.selection import ModelSelector
from agent.store import Conversation
from gateway.models.catalog import lookup


class Vision:
    """Asked with a conversation, tells whether its model sees. `configured` is `model.vision`."""

    def __init__(self, models: ModelSelector, configured: bool | None) -> None:
        self._models = models
        self._configured = configured

    async def __call__(self, conversation: Conversation) -> bool:
        if self._configured is not None and await self._models.is_default(conversation):
            return self._configured
        llm = await self._models.of(conversation)
        facts = await asyncio.to_thread(lookup, llm.model)
        return facts is not None and facts.supports_vision
