"""`/model` with real clients: the server and key of each model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from pydantic import SecretStr

from agent.messages import Message
from gateway.config.schema import ModelChoice, ModelConfig
from gateway.models.selection import configured_llm, configured_names, named_llm
from tests.fakes.openai.server import FakeOpenAI
from tests.support.command_harness import CommandHarness, furnished


@asynccontextmanager
async def configured(folder: Path, config: ModelConfig) -> AsyncIterator[CommandHarness]:
    """Build the gateway as `gateway/app.py` does, for the owner."""
    _, llm = await asyncio.to_thread(configured_llm, config)
    names = await asyncio.to_thread(configured_names, config)
    try:
        async with furnished(folder, llm, partial(named_llm, config), names) as harness:
            yield harness
    finally:
        await llm.close()


def at(server: FakeOpenAI, *fallbacks: str) -> ModelConfig:
    key = SecretStr(server.api_key)
    listed = tuple(ModelChoice(name=name) for name in fallbacks)
    return ModelConfig(name="openai/big", base_url=server.base_url, api_key=key, fallbacks=listed)


@pytest.mark.parametrize("wanted", ["openai/small", "small", "openai/unlisted"])
async def test_models_at_the_configured_address(tmp_path: Path, wanted: str) -> None:
    """A model without its own server is called at the server of the main one, with the same key."""
    async with FakeOpenAI() as server, configured(tmp_path, at(server, "openai/small")) as harness:
        assert "Also set up: `openai/small`" in await harness.say("/model")
        assert "answers in this conversation from now on" in await harness.say(f"/model {wanted}")
        await harness.say("Hello.")
        assert server.requests[-1].body["model"] == wanted.removeprefix("openai/")
        assert f"`openai/{wanted.removeprefix('openai/')}`" in await harness.say("/model")


async def test_a_name_the_provider_does_not_know(tmp_path: Path) -> None:
    """The answer shows the provider's reason, and the old model stays."""
    async with FakeOpenAI(models=["big"]) as server, configured(tmp_path, at(server)) as harness:
        told = await harness.say("/model openai/bigger")
        assert told.startswith("The model was not switched: `openai/bigger` cannot be used here.")
        await harness.say("Hello.")
        assert server.requests[-1].body["model"] == "big"


@pytest.mark.parametrize(
    ("wanted", "because"),
    [
        ("gpt", "No provider is known for `gpt`"),
        ("nobody/knows", "nobody/knows"),
        ("anthropic/claude-sonnet-5", "ANTHROPIC_API_KEY is not set."),
        ("gpt-5.4", "OPENAI_API_KEY is not set."),
        ("embedded/nothing", "the one embedded model is `embedded/smollm2`"),
    ],
)
async def test_unknown_models_and_providers_without_a_key(tmp_path: Path, wanted: str, because: str) -> None:
    """No request is made."""
    config = ModelConfig(name="embedded/smollm2")
    async with configured(tmp_path, config) as harness:
        told = await harness.say(f"/model {wanted}")
        assert told.startswith("The model was not switched")
        assert because in told
        assert "`embedded/smollm2`" in await harness.say("/model")


async def test_images_are_not_sent_to_a_model_that_cannot_see(tmp_path: Path) -> None:
    """They stay in the conversation."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    parts = ({"type": "text", "text": "What is this?"}, picture)
    async with FakeOpenAI() as server:
        config = at(server).model_copy(update={"name": "openai/gpt-4o-mini"})
        async with configured(tmp_path, config) as harness:
            await harness.say("Hello.")
            await harness.store.sessions.append(
                await harness.live(), [Message("user", "What is this?", parts)]
            )
            for model, seen in (("openai/gpt-3.5-turbo", False), ("default", True)):
                assert "from now on" in await harness.say(f"/model {model}")
                await harness.say("Well?")
                sent = server.requests[-1].body["messages"]
                assert (picture in sent[3]["content"]) is seen
                assert parts[0] in sent[3]["content"]
