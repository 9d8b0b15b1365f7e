"""A summary by the model that answers reads the conversation from the provider's cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent.context_compressor import ContextCompressor
from agent.loop import Turn
from agent.messages import Message
from agent.store import Address
from gateway.models.litellm_client import LiteLLMClient
from tests.fakes.anthropic.server import FakeAnthropic
from tests.support.agents import make_agent
from tests.support.stores import temporary_store

WINDOW = 20_000


def _bare(value: Any) -> Any:
    """Without markers."""
    if isinstance(value, list):
        return [_bare(item) for item in value]
    if isinstance(value, dict):
        return {key: _bare(item) for key, item in value.items() if key != "cache_control"}
    return value


async def test_a_fork_extends_the_cached_prefix(tmp_path: Path) -> None:
    """The summary request is the last request with an instruction behind it; most of it is read at a tenth."""
    async with FakeAnthropic() as server:
        llm = LiteLLMClient(
            "anthropic/claude-sonnet-4-5", context_length=WINDOW, supports_tools=True,
            api_key=server.api_key, base_url=server.base_url,
        )  # fmt: skip
        store = await temporary_store()
        agent = make_agent(
            llm, store.sessions, engine=lambda: ContextCompressor(WINDOW, protect_last_n=2, as_fork=True)
        )
        conversation = await store.sessions.open_conversation(Address("web", "desk"), person="owner")
        for number in range(10):
            server.reply(chunks=[f"Answer {number}. ", "detail " * 150])
            turn = Turn(conversation, Message("user", f"Question {number}. " + "word " * 150), tmp_path)
            assert [event async for event in agent.run(turn)]
        server.reply(text="## Goal\nTo test the fork.")
        live = await agent.open(conversation)
        outcome = await agent.auto_compaction.compactor.compact(live, "command")
        await llm.close()
    assert outcome.compacted, outcome.detail
    assert "To test the fork." in "".join(message.content for message in live.history)
    last_turn, summary = server.requests[-2:]
    before, after = _bare(last_turn.body["messages"]), _bare(summary.body["messages"])
    assert after[: len(before)] == before
    assert _bare(summary.body["system"]) == _bare(last_turn.body["system"])
    assert "about to be shortened" in str(after[-1])
    calls = await store.sessions.usage(conversation_id=conversation.id)
    assert summary.usage["cache_read_input_tokens"] > 0.7 * last_turn.usage["cache_read_input_tokens"]
    assert calls.cache_read_tokens > 0
