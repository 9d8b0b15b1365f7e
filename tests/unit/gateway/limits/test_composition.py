"""The real composition enforces the limits on every way to a model or the queue."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from agent.errors import BudgetReached
from agent.events import TurnDone, TurnFailed
from agent.llm import ChatRequest, Usage
from agent.store import Address
from gateway.app import build_app
from gateway.config.loader import load
from gateway.types import OWNER, InboundMessage

ASK = ChatRequest([{"role": "user", "content": "hi"}])


@pytest.fixture(autouse=True)
def nothing_blocks() -> None:
    """Files may be read before the first request."""


async def test_the_whole_of_hermes_keeps_to_the_budget(tmp_path: Path) -> None:
    """The real composition, with a day on which everything is spent: no model is reached by any way."""
    file = tmp_path / "hermes.yaml"
    settings = {
        "limits": {"daily_usd_total": 1.0, "waiting_messages": 3, "owner_messages_per_minute": 2},
        "model": {"name": "embedded/smollm2"},
        "auxiliary": {"compression": {"model": "openai/gpt-4.1-mini", "base_url": "http://127.0.0.1:9/v1"}},
    }
    file.write_text(yaml.safe_dump(settings))
    loaded = await asyncio.to_thread(load, file)
    async with build_app(loaded) as hermes:
        gateway, here = hermes.gateway, Address("web", "desk")
        conversation = await hermes.store.sessions.open_conversation(here, person=OWNER)
        await hermes.store.sessions.record_usage(
            conversation.live_session_id, Usage(1, 1, cost_usd=1.0), model="m", spender=OWNER
        )
        with gateway.hub.watch(conversation.id, after=0) as watcher:
            await gateway.receive(InboundMessage(here, OWNER, "hi"))
            while not isinstance(event := (await asyncio.wait_for(anext(watcher), 20)).event, TurnFailed):
                assert not isinstance(event, TurnDone)
        assert "All people together have spent $1.00 of $1.00" in event.error

        models = gateway.agent.models
        with pytest.raises(BudgetReached):
            await models.switch(hermes.store.sessions, conversation, "ollama/llama3")
        summariser = gateway.agent.auto_compaction.compactor._auxiliary(await models.of(conversation))
        for model in (None, "main"):
            with pytest.raises(BudgetReached):
                await summariser("compression", model).complete(ASK)
        assert [gateway.limits.refusal(OWNER) is None for _ in range(3)] == [True, True, False]
        assert gateway.limits.queue_limits.per_person == 3
