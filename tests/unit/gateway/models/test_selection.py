"""Which model is asked, with which key, at which address: seen from the server that is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent.errors import ModelNotAvailable
from agent.llm import ChatRequest, LLMClient
from gateway.models.catalog import lookup
from gateway.models.selection import DEFAULT_MODELS, ModelSpec, build_llm, explain_choice
from tests.fakes.anthropic.server import FakeAnthropic
from tests.fakes.openai.server import FakeOpenAI

HELLO = ChatRequest([{"role": "user", "content": "Hello"}], max_tokens=50)


@asynccontextmanager
async def built(main: ModelSpec, *fallbacks: ModelSpec, **options: Any) -> AsyncIterator[LLMClient]:
    llm = await asyncio.to_thread(build_llm, main, fallbacks=fallbacks, **{"keys": {}, **options})
    try:
        yield llm
    finally:
        await llm.close()


@pytest.mark.parametrize(
    ("variables", "model"),
    [
        ("", "embedded/smollm2"),
        ("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-5"),
        ("OPENAI_API_KEY", "openai/gpt-5.4"),
        ("OPENROUTER_API_KEY", "openrouter/anthropic/claude-sonnet-5"),
        ("OPENROUTER_API_KEY OPENAI_API_KEY", "openai/gpt-5.4"),
        ("OPENROUTER_API_KEY OPENAI_API_KEY ANTHROPIC_API_KEY", "anthropic/claude-sonnet-5"),
        ("GROQ_API_KEY", "embedded/smollm2"),
    ],
)
def test_auto_takes_the_first_provider_with_a_key(variables: str, model: str) -> None:
    """Anthropic, OpenAI, OpenRouter, in this order; without a key the embedded model."""
    keys = dict.fromkeys(variables.split(), "sk-secret")
    decision = explain_choice("auto", base_url=None, keys=keys)
    assert decision.model == model
    assert model in decision.why
    assert "sk-secret" not in decision.why


def test_an_empty_key_is_no_key() -> None:
    """`OPENAI_API_KEY=` in a shell profile does not choose OpenAI."""
    assert explain_choice("auto", base_url=None, keys={"OPENAI_API_KEY": ""}).model == "embedded/smollm2"


@pytest.mark.parametrize("model", DEFAULT_MODELS.values())
def test_defaults_are_in_the_table_and_use_tools(model: str) -> None:
    """A default that the installed litellm does not know would have a guessed window."""
    facts = lookup(model)
    assert facts is not None
    assert facts.supports_tools
    assert facts.context_length >= 200_000


@pytest.mark.parametrize(
    ("name", "base_url", "model"),
    [
        ("anthropic/claude-haiku-4-5", None, "anthropic/claude-haiku-4-5"),
        ("claude-haiku-4-5", None, "anthropic/claude-haiku-4-5"),
        ("gpt-4o", None, "openai/gpt-4o"),
        ("ollama/llama3.2", None, "ollama/llama3.2"),
        ("brand-new-provider/model", None, "brand-new-provider/model"),
        ("llama3.2", "http://127.0.0.1:11434/v1", "openai/llama3.2"),
        ("meta-llama/Llama-3.1-8B", "http://127.0.0.1:8000/v1", "openai/meta-llama/Llama-3.1-8B"),
        ("anthropic/claude-haiku-4-5", "http://127.0.0.1:9000", "anthropic/claude-haiku-4-5"),
    ],
)
def test_names_become_full_ids(name: str, base_url: str | None, model: str) -> None:
    """A provider is added where it is known, and is OpenAI's kind where an address is given."""
    decision = explain_choice(name, base_url=base_url, keys={"OPENAI_API_KEY": "sk-secret"})
    assert decision.model == model
    assert decision.why.startswith(f"Using {model}")


def test_the_sentence_names_the_address() -> None:
    """Who reads the banner sees where the conversation goes."""
    why = explain_choice("llama3.2", base_url="http://127.0.0.1:11434/v1", keys={}).why
    assert why == "Using openai/llama3.2 at 127.0.0.1:11434, as `model.base_url` says."


@pytest.mark.parametrize(
    ("spec", "advice"),
    [
        (ModelSpec(base_url="http://127.0.0.1:1/v1"), "`model.base_url` is set: say in `model.name`"),
        (ModelSpec(api_key="sk-secret"), "`model.api_key` is set: say in `model.name`"),
        (ModelSpec("llama3.2"), "write it as `provider/llama3.2`, or set `model.base_url`"),
        (ModelSpec("embedded/llama"), "the one embedded model is `embedded/smollm2`"),
    ],
)
def test_what_cannot_be_decided_says_what_to_write(spec: ModelSpec, advice: str) -> None:
    """A guess could send a conversation to the wrong place; a sentence is better."""
    with pytest.raises(ModelNotAvailable) as caught:
        build_llm(spec, keys={})
    assert advice in str(caught.value)
    assert "sk-secret" not in str(caught.value)


async def test_a_bare_name_is_asked_for_at_its_address() -> None:
    """The server gets the name without our prefix, and the limits apply."""
    async with FakeOpenAI() as server:
        spec = ModelSpec("my-model", base_url=server.base_url, api_key="test-key", context_length=4000)
        async with built(spec, max_tokens=77) as llm:
            answer = await llm.complete(ChatRequest(HELLO.messages))
    assert answer.text == "You said: Hello"
    assert (llm.model, llm.context_length) == ("openai/my-model", 4000)
    assert server.requests[0].body["model"] == "my-model"
    assert server.requests[0].body["max_tokens"] == 77


async def test_a_providers_key_stays_with_the_provider() -> None:
    """A key from the environment is never sent to an address of one's own."""
    async with FakeOpenAI(api_key="not-needed") as server:
        spec = ModelSpec("my-model", base_url=server.base_url)
        async with built(spec, keys={"OPENAI_API_KEY": "sk-real"}) as llm:
            assert (await llm.complete(HELLO)).text == "You said: Hello"
    assert "sk-real" not in str(dict(server.requests[0].headers))


async def test_ollama_is_asked_on_its_openai_route() -> None:
    """`ollama/...` needs no key, and its address no path."""
    async with (
        FakeOpenAI(api_key="not-needed") as server,
        built(ModelSpec("ollama/llama3.2", server.url)) as llm,
    ):
        assert (await llm.complete(HELLO)).text == "You said: Hello"
        assert (llm.model, llm.context_length) == ("ollama/llama3.2", 4096)
    assert server.requests[0].body["model"] == "llama3.2"


async def test_a_fallback_of_the_same_provider_shares_address_and_key() -> None:
    """Named by its id alone, it is found where the main model is."""
    async with FakeOpenAI(models=["second"]) as server:
        spec = ModelSpec("first", base_url=server.base_url, api_key="test-key")
        async with built(spec, ModelSpec("second")) as llm:
            assert (await llm.complete(HELLO)).text == "You said: Hello"
    assert [seen.body["model"] for seen in server.requests] == ["first", "second"]


async def test_a_fallback_of_another_provider_gets_neither() -> None:
    """The main model's key is sent to no other address."""
    async with FakeOpenAI(models=["none"]) as main, FakeAnthropic(api_key="other-key") as other:
        spec = ModelSpec("first", base_url=main.base_url, api_key="test-key")
        fallback = ModelSpec("anthropic/claude-haiku-4-5", base_url=other.base_url, api_key="other-key")
        async with built(spec, fallback) as llm:
            answer = await llm.complete(HELLO)
    assert answer.model == "anthropic/claude-haiku-4-5"
    assert "test-key" not in str(dict(other.requests[0].headers))


@pytest.mark.embedded
async def test_auto_without_keys_answers() -> None:
    """With nothing configured at all there is an answer, from the embedded model."""
    async with built(ModelSpec(context_length=1024)) as llm:
        assert (llm.model, llm.context_length, llm.supports_tools) == ("embedded/smollm2", 1024, False)
        assert (await llm.complete(HELLO)).text
