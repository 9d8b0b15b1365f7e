"""The model for summaries: whom it asks, with which key, and what is said when something is missing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.errors import AuthenticationFailed, KeyMissing, ModelNotAvailable
from agent.llm import ChatRequest, LLMClient
from gateway.config.schema import AuxiliaryModelConfig, ModelConfig
from gateway.models.litellm_client import LiteLLMClient
from gateway.models.selection import NOUS_URL, ModelSpec, auxiliary_llm, auxiliary_spec, configured_llm
from tests.fakes.openai.server import FakeOpenAI

HELLO = ChatRequest([{"role": "user", "content": "Hello"}], purpose="compression")
LOCAL, OTHER = "http://127.0.0.1:9/v1", "http://127.0.0.1:8/v1"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "NOUS_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))


def resolved(auxiliary: dict[str, Any], **model: Any) -> ModelSpec | None:
    return auxiliary_spec(
        AuxiliaryModelConfig.model_validate(auxiliary),
        ModelConfig.model_validate({"name": "openai/big", **model}),
    )


def built(auxiliary: dict[str, Any], model: ModelConfig) -> tuple[LLMClient, LLMClient]:
    _, main = configured_llm(model)
    return main, auxiliary_llm(AuxiliaryModelConfig.model_validate(auxiliary), model, main)


@pytest.mark.parametrize("provider", ["main", "auto"])
@pytest.mark.parametrize("name", ["small", "openai/small"])
async def test_it_is_asked_where_the_main_model_is(
    monkeypatch: pytest.MonkeyPatch, provider: str, name: str
) -> None:
    """What people tell a server of one's own stays there, and the provider's key is not sent to it."""
    monkeypatch.setenv("OPENAI_API_KEY", "the-providers-own-key")
    async with FakeOpenAI(api_key="the-house-key") as server:
        model = ModelConfig.model_validate(
            {"name": "openai/big", "base_url": server.base_url, "api_key": "the-house-key"}
        )
        main, helper = await asyncio.to_thread(built, {"provider": provider, "model": name}, model)
        await helper.complete(HELLO)
        await helper.close()
        await main.close()
        assert [seen.body["model"] for seen in server.requests] == ["small"]
        assert server.requests[0].headers["Authorization"] == "Bearer the-house-key"


@pytest.mark.parametrize(
    ("auxiliary", "model", "spec"),
    [
        ({"provider": "main"}, {}, None),
        ({"provider": "auto"}, {"base_url": LOCAL}, None),
        # With any name, `main` means the main model's address.
        (
            {"provider": "main", "model": "anthropic/claude-haiku-4-5"},
            {"base_url": LOCAL, "api_key": "k"},
            ModelSpec("openai/anthropic/claude-haiku-4-5", LOCAL, "k"),
        ),
        (
            {"provider": "main", "model": "google/gemini-flash"},
            {"name": "openrouter/anthropic/claude-sonnet-5", "api_key": "k"},
            ModelSpec("openrouter/google/gemini-flash", None, "k"),
        ),
        ({"provider": "main", "model": "qwen"}, {"name": "ollama/llama3"}, ModelSpec("ollama/qwen")),
        # Another provider by its name has an address and a key of its own.
        ({"model": "anthropic/haiku"}, {"base_url": LOCAL, "api_key": "k"}, ModelSpec("anthropic/haiku")),
        ({"provider": "openrouter"}, {"base_url": LOCAL}, ModelSpec("openrouter/openai/big")),
        ({"provider": "openai", "model": "small"}, {"base_url": LOCAL, "api_key": "k"}, ModelSpec("openai/small")),
        ({"provider": "openai", "model": "small"}, {"api_key": "k"}, ModelSpec("openai/small", None, "k")),
        # A key is for its own address.
        ({"base_url": OTHER, "model": "small"}, {"base_url": LOCAL, "api_key": "k"}, ModelSpec("openai/small", OTHER)),
        ({"base_url": LOCAL, "model": "s"}, {"base_url": LOCAL, "api_key": "k"}, ModelSpec("openai/s", LOCAL, "k")),
        ({"provider": "nous", "model": "Hermes-4-70B"}, {}, ModelSpec("nous/Hermes-4-70B")),
    ],
)  # fmt: skip
def test_whom_it_asks(auxiliary: dict[str, Any], model: dict[str, Any], spec: ModelSpec | None) -> None:
    assert resolved(auxiliary, **model) == spec


def test_a_model_that_the_main_provider_cannot_have() -> None:
    """`main` is a provider here, and the model belongs to another."""
    with pytest.raises(ModelNotAvailable) as refused:
        resolved({"provider": "main", "model": "openai/gpt-4o-mini"}, name="anthropic/claude-sonnet-5")
    assert "set `auxiliary.compression.provider: openai`" in refused.value.detail


async def test_nous(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nous's server speaks OpenAI's language; its key is in NOUS_API_KEY."""
    monkeypatch.setenv("NOUS_API_KEY", "the-nous-key")
    model = ModelConfig(name="openai/big", base_url=LOCAL)
    _, helper = await asyncio.to_thread(built, {"provider": "nous", "model": "Hermes-4-70B"}, model)
    assert helper.model == "nous/Hermes-4-70B"
    client = helper._clients[0]  # type: ignore[attr-defined]
    assert isinstance(client, LiteLLMClient)
    arguments = client._arguments(HELLO)
    assert (arguments["model"], arguments["api_base"], arguments["api_key"]) == (
        "openai/Hermes-4-70B",
        NOUS_URL,
        "the-nous-key",
    )
    await helper.close()


@pytest.mark.parametrize(
    ("auxiliary", "variable"),
    [
        ({"provider": "openai", "model": "small"}, "OPENAI_API_KEY"),
        ({"provider": "anthropic", "model": "claude-haiku-4-5"}, "ANTHROPIC_API_KEY"),
        ({"provider": "openrouter", "model": "x/small"}, "OPENROUTER_API_KEY"),
        ({"provider": "nous", "model": "Hermes-4-70B"}, "NOUS_API_KEY"),
        ({"model": "moonshot/kimi-latest"}, "MOONSHOT_API_KEY"),
        ({"model": "gemini/gemini-2.5-flash"}, "GEMINI_API_KEY"),
    ],
)
async def test_a_missing_key_is_reported_as_that(auxiliary: dict[str, Any], variable: str) -> None:
    """Not as an overload: the sentence names the model and the variable, and the call is not repeated."""
    model = ModelConfig(name="openai/big", base_url=LOCAL)
    _, helper = await asyncio.to_thread(built, auxiliary, model)
    with pytest.raises(AuthenticationFailed) as missing:
        await helper.complete(HELLO)
    assert isinstance(missing.value, KeyMissing)
    assert helper.model in str(missing.value) and variable in str(missing.value)
    await helper.close()
