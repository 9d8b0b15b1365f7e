"""`/status` and `/usage`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.context_compressor import ContextCompressor
from agent.errors import ContextOverflow, ModelNotAvailable, QuotaExhausted
from agent.events import TextDelta, TurnDone
from agent.llm import ChatRequest, LLMClient, Usage
from agent.llm.guards import Windows
from agent.llm.retry import RetryingLLM
from agent.testing import ScriptedLLM
from gateway.store.sqlite.store import SqliteStore
from tests.support.command_harness import CommandHarness, Person, furnished


async def test_status_answers_while_a_turn_runs(harness: CommandHarness) -> None:
    gate = asyncio.Event()
    harness.llm.then(["Slowly", gate, "."])
    await harness.send("Speak.")
    await harness.until(TextDelta)
    told = await harness.say("/status")
    assert "1 message, 0 ancestors" in told
    assert "compressor, compacts at 4,000 tokens, prepares from 3,200" in told
    gate.set()
    assert (await harness.until(TurnDone))[-1] == TurnDone("Slowly.")


async def test_status_shows_what_an_engine_says_of_itself(tmp_path: Path) -> None:
    """Values that are neither numbers nor text are left out."""

    class Talking(ContextCompressor):
        def get_status(self) -> dict[str, Any]:
            return {**super().get_status(), "stored_messages": 12, "parts": [1], "mood": "fine"}

    llm = ScriptedLLM(["Yes."], context_length=8_000)
    async with furnished(tmp_path, llm, lambda name: llm, engine=lambda: Talking(8_000)) as harness:
        await harness.say("tea")
        told = await harness.say("/status")
    assert "compacts at 4,000 tokens, prepares from 3,200; stored_messages: 12; mood: fine" in told


async def test_status_makes_no_engine(harness: CommandHarness) -> None:
    """It only reads, and does not pin the prompt."""
    told = await harness.say("/status")
    assert "Model: scripted/model, window 8,000 tokens" in told
    assert "Context engine: at rest until the next message" in told
    assert (await harness.store.sessions.session(await harness.live())).system_prompt is None
    await harness.talk("tea")
    assert "Context engine: compressor" in await harness.say("/status")


async def test_status_estimates_the_window_until_the_model_is_called_again(harness: CommandHarness) -> None:
    await harness.talk("tea", "milk " * 400, "lemon " * 400, "water " * 400, "sugar", "salt")
    assert "In the window: 500 tokens" in await harness.say("/status")
    assert "Compressed" in await harness.say("/compress")
    ((_, done),) = await harness.store.sessions.compactions(harness.conversation_id)
    assert f"In the window: ~{done.tokens_after:,} tokens" in await harness.say("/status")
    assert f"In the window: ~{done.tokens_after:,} of 8,000 tokens" in await harness.say("/usage")


async def test_status_does_not_believe_what_cannot_be_true(harness: CommandHarness) -> None:
    """Some servers report the usage of all calls together."""
    await harness.talk("tea", "milk")
    await harness.store.sessions.record_usage(await harness.live(), Usage(130_000, 1), model="m")
    told = await harness.say("/status")
    assert "130,000" not in told and "In the window: ~" in told


async def test_usage_counts_the_conversation(harness: CommandHarness) -> None:
    await harness.talk("tea", "milk")
    told = await harness.say("/usage")
    assert "In the window: 500 of 8,000 tokens (6%)" in told
    assert "1,000 tokens in, 20 out" in told


def _no_other(name: str) -> LLMClient:
    raise ModelNotAvailable(name)


async def test_status_after_a_fallback(tmp_path: Path) -> None:
    """The model that answered last is named while it differs from the configured one."""
    main = ScriptedLLM([QuotaExhausted(), "Back."], model="scripted/main", context_length=200_000)
    spare = ScriptedLLM(["Spare here."], model="scripted/spare", context_length=8_000)
    async with furnished(tmp_path, RetryingLLM([main, spare]), _no_other) as harness:
        await harness.say("Hello.")
        told = await harness.say("/status")
        assert "Model: scripted/main, window 200,000 tokens" in told
        assert "The last answer came from scripted/spare, window 8,000 tokens" in told
        assert "of 8,000 tokens" in await harness.say("/usage")
        assert "compacts at 4,000 tokens" in told
        await harness.say("Hello.")
        told = await harness.say("/status")
        assert "scripted/spare" not in told and "compacts at 100,000 tokens" in told


async def test_status_of_a_window_that_is_smaller_than_believed(tmp_path: Path) -> None:
    """Everyone sees the window; only admins read what to set."""
    model = ScriptedLLM([ContextOverflow(limit=8_192), "Yes."], model="scripted/main", context_length=131_072)
    store = await SqliteStore.open(tmp_path / "state.db")
    windows = await Windows.load(store.sessions)
    async with furnished(tmp_path, RetryingLLM([model], attempts=1, windows=windows), _no_other) as harness:
        assert "scripted/main holds 8,192 tokens, not 131,072 as believed" in await harness.say("Hello.")
        told = await harness.say("/status", Person(is_admin=True))
        assert "Model: scripted/main, window 8,192 tokens" in told
        assert "set `model.context_length: 8192` in hermes.yaml" in told
        told = await harness.say("/status", Person(person="telegram:5", author="telegram:5"))
        assert "Model: scripted/main, window 8,192 tokens" in told
        assert "hermes.yaml" not in told
    await store.close()


async def test_status_of_a_summary_model_with_a_smaller_window(tmp_path: Path) -> None:
    small = ScriptedLLM([ContextOverflow(limit=4_096)], model="scripted/small", context_length=32_768)
    store = await SqliteStore.open(tmp_path / "state.db")
    auxiliary = RetryingLLM([small], windows=await Windows.load(store.sessions))
    with pytest.raises(ContextOverflow):
        await auxiliary.complete(ChatRequest([{"role": "user", "content": "word " * 8_000}]))
    async with furnished(tmp_path, ScriptedLLM(["Yes."]), _no_other, auxiliary=auxiliary) as harness:
        await harness.say("Hello.")
        told = await harness.say("/status", Person(is_admin=True))
        assert (
            "scripted/small, which writes the summaries, holds 4,096 tokens, not 32,768 as believed" in told
        )
        told = await harness.say("/status", Person(person="telegram:5", author="telegram:5"))
        assert "scripted/small" not in told
    await store.close()
