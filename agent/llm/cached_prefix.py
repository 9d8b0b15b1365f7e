"""Summarising as a fork: the conversation as the provider already has it in its cache, with one instruction more.

A fresh prompt with the old turns in it pays for every token again; a fork reads them at a tenth of the price.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

from agent.llm import ChatRequest, Completion, LLMClient, LLMEvent, WrappedLLM

CACHED_PREFIX_TASK = "compression_fork"
"""The task under which an engine asks for it. The messages of the call are only what comes behind the conversation."""


class CachedPrefixLLM(WrappedLLM):
    """The model that answers, in the middle of a conversation."""

    def __init__(self, llm: LLMClient, conversation: ChatRequest) -> None:
        super().__init__(llm)
        self._conversation = conversation

    def stream(self, request: ChatRequest) -> AsyncGenerator[LLMEvent, None]:
        return self._llm.stream(self._behind(request))

    async def complete(self, request: ChatRequest) -> Completion:
        return await self._llm.complete(self._behind(request))

    async def close(self) -> None:
        """Do nothing: the caller owns the model."""

    def _behind(self, request: ChatRequest) -> ChatRequest:
        """Tools and their choice stay as they were: changing either would lose the cache."""
        said = self._conversation
        return replace(
            said,
            messages=[*said.messages, *request.messages],
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            purpose=request.purpose,
        )
