"""`/status` and `/usage`: how the conversation stands, also while it goes on."""

from __future__ import annotations

import asyncio

from agent.events import TextDelta, TurnDone
from tests.commands.desk import Desk


async def test_status_answers_while_a_turn_runs(desk: Desk) -> None:
    """It neither waits for the answer nor disturbs it."""
    gate = asyncio.Event()
    desk.llm.then(["Slowly", gate, "."])
    await desk.send("Speak.")
    await desk.until(TextDelta)
    told = await desk.say("/status")
    assert "1 message, 0 ancestors" in told
    assert "compressor, compacts at 4,000 tokens, prepared from 3,200 on" in told
    gate.set()
    assert (await desk.until(TurnDone))[-1] == TurnDone("Slowly.")


async def test_status_makes_no_engine(desk: Desk) -> None:
    """It only looks: what is not there yet is not begun for it, and the prompt is not pinned."""
    told = await desk.say("/status")
    assert "Model: scripted/model, window 8,000 tokens" in told
    assert "Context engine: at rest until the next message" in told
    assert (await desk.store.session(await desk.live())).system_prompt is None
    await desk.talk("tea")
    assert "Context engine: compressor" in await desk.say("/status")


async def test_status_estimates_the_window_until_the_model_is_called_again(desk: Desk) -> None:
    """Right after a compaction no provider has counted yet."""
    await desk.talk("tea", "milk " * 400, "lemon " * 400, "water " * 400, "sugar", "salt")
    assert "In the window: 500 tokens" in await desk.say("/status")
    assert "Compressed" in await desk.say("/compress")
    ((_, done),) = await desk.store.compactions(desk.conversation_id)
    assert f"In the window: ~{done.tokens_after:,} tokens" in await desk.say("/status")
    assert f"In the window: ~{done.tokens_after:,} of 8,000 tokens" in await desk.say("/usage")


async def test_usage_counts_the_conversation(desk: Desk) -> None:
    """Tokens in and out over all turns, and the share of the window."""
    await desk.talk("tea", "milk")
    told = await desk.say("/usage")
    assert "In the window: 500 of 8,000 tokens (6%)" in told
    assert "1,000 tokens in, 20 out" in told
