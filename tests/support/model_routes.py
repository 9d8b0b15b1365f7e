"""The two routes every test of the litellm client takes: OpenAI's and Anthropic's, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from agent.llm import ChatRequest, Completion, LLMEvent, TextChunk
from agent.messages import ChatDict
from gateway.models.litellm_client import LiteLLMClient
from tests.fakes.anthropic.server import FakeAnthropic
from tests.fakes.model_server import ModelServer
from tests.fakes.openai.server import FakeOpenAI

KEY = "sk-test-0123456789abcdefghij"
MODELS = {FakeOpenAI: "openai/gpt-4o-mini", FakeAnthropic: "anthropic/claude-sonnet-4-5"}
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@dataclass(frozen=True, slots=True)
class Route:
    server: ModelServer
    client: LiteLLMClient

    def another_client(self, **options: Any) -> LiteLLMClient:
        """The same route with other options."""
        return make_client(self.server, **options)


def make_client(server: ModelServer, **options: Any) -> LiteLLMClient:
    defaults: dict[str, Any] = {
        "context_length": 200_000,
        "supports_tools": True,
        "api_key": KEY,
        "timeout": 20,
    }
    model = options.pop("model", MODELS[type(server)])
    return LiteLLMClient(model, base_url=server.base_url, **(defaults | options))


@asynccontextmanager
async def open_route(kind: type[ModelServer], **server_options: Any) -> AsyncIterator[Route]:
    async with kind(api_key=KEY, **server_options) as server:
        client = make_client(server)
        try:
            yield Route(server, client)
        finally:
            await client.close()


def ask(text: str = "Hi", *, tools: bool = False, **fields: Any) -> ChatRequest:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
    return ChatRequest(messages, tools=(WEATHER,) if tools else (), **fields)


async def collect(events: AsyncIterator[LLMEvent]) -> tuple[list[str], Completion]:
    """The pieces of text as they came, and the completion at the end."""
    seen = [event async for event in events]
    completion = seen.pop()
    assert isinstance(completion, Completion)
    return [event.text for event in seen if isinstance(event, TextChunk)], completion


def chat_request(text: str, *, max_tokens: int | None = None) -> ChatRequest:
    messages: list[ChatDict] = [
        {"role": "system", "content": "You are Hermes."},
        {"role": "user", "content": text},
    ]
    return ChatRequest(messages, max_tokens=max_tokens, temperature=0.0)
