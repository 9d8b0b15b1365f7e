"""The port to language models: what the loop asks, what it gets. Implemented in `gateway/models/`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Protocol

from agent.messages import ChatRequest as ChatRequest
from agent.messages import ToolCall
from agent.messages import Usage as Usage


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A piece of the answer as it arrives."""

    text: str


@dataclass(frozen=True, slots=True)
class Retrying:
    """The answer is being asked for again; what arrived so far stays and is not repeated."""

    reason: str
    model: str


@dataclass(frozen=True, slots=True)
class Completion:
    """The whole answer; always the last item of a stream."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    """`stop`, `tool_calls`, `length` or `content_filter`."""
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    """The model that answered; in a chain it need not be the first."""
    context_length: int = 0
    """Its window; 0 where the caller knows it from the client."""


LLMEvent = TextChunk | Retrying | Completion


class LLMClient(Protocol):
    """One model, or a chain of them that behaves like one."""

    @property
    def model(self) -> str:
        """The configured id, for example `anthropic/claude-sonnet-4-5`."""

    @property
    def context_length(self) -> int:
        """The window in tokens."""

    @property
    def supports_tools(self) -> bool: ...

    @property
    def endpoint(self) -> str:
        """The host and path that serve the model; empty for the provider's usual address."""

    def stream(self, request: ChatRequest) -> AsyncGenerator[LLMEvent, None]:
        """Ends with a Completion or raises a ModelError. Closing the iterator closes the request."""

    async def complete(self, request: ChatRequest) -> Completion: ...

    async def close(self) -> None: ...
