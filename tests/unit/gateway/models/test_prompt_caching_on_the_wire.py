"""Prompt caching end to end: the real agent and litellm, at a server that does Anthropic's accounting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.events import TurnDone, UsageReported
from agent.llm import LLMClient, Usage
from agent.loop import Agent, Turn
from agent.messages import Message
from agent.prompt_caching import CacheTTL, PromptCaching, Strategy
from agent.store import Address, Conversation
from agent.tool import ToolContext, tool
from gateway.models.catalog import lookup
from gateway.models.litellm_client import LiteLLMClient
from tests.fakes.anthropic.rules import blocks_of
from tests.fakes.anthropic.server import FakeAnthropic
from tests.fakes.model_server import ModelServer, Seen
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Call, compact
from tests.support.agents import make_agent
from tests.support.model_routes import KEY
from tests.support.stores import temporary_store

MODEL = "anthropic/claude-sonnet-4-5"
FIVE_MINUTES = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
QUESTIONS = {
    "Good morning. " + "This is a long story. " * 300: [],
    "What are the rules?": [["rules"]],
    "What are the fares, and is there a seat?": [["fares", "seats"]],
    "May I bring a bag, and what about the dog?": [["bags"], ["dogs"]],
}
"""What a person asks, and what is looked up for it step by step."""


class OpenRouterWorld(FakeOpenAI):
    """OpenAI's language with Anthropic's markers, and a request for the price that litellm adds."""

    def check(self, body: dict[str, Any], headers: Mapping[str, str]) -> None:
        super().check({name: value for name, value in body.items() if name != "usage"}, headers)


@tool()
async def look_up(ctx: ToolContext, topic: str) -> str:
    """Looks a topic up in the handbook."""
    return f"{topic}: " + "a long paragraph of the handbook. " * 60


@dataclass
class Chat:
    """A conversation with the agent over a real socket; the same clock drives us and the provider's cache."""

    server: ModelServer
    now: float = 0.0
    usage: list[Usage] = field(default_factory=list)
    agent: Agent = field(init=False)
    conversation: Conversation = field(init=False)
    workspace: Path = Path()

    def clock(self) -> float:
        return self.now

    async def say(self, text: str, *, after: float = 40.0) -> None:
        """One turn, which must end well."""
        self.now += after
        events = [
            event
            async for event in self.agent.run(Turn(self.conversation, Message("user", text), self.workspace))
        ]
        assert isinstance(events[-1], TurnDone)
        self.usage += [event.usage for event in events if isinstance(event, UsageReported)]

    async def four_turns(self) -> None:
        """Eight requests: a plain answer, a tool, two tools at once, two tools one after the other."""
        for question, steps in QUESTIONS.items():
            for topics in steps:
                looks = [Call("look_up", {"topic": topic}) for topic in topics]
                self.server.reply("Let me look.", tool_calls=looks)
            self.server.reply(f"You asked me {len(question)} letters; here is the answer.")
            await self.say(question)

    def bodies(self) -> list[dict[str, Any]]:
        assert not self.server.refusals
        return [seen.body for seen in self.server.requests]


@asynccontextmanager
async def open_chat(
    workspace: Path, strategy: Strategy, ttl: CacheTTL = "5m", *, at_openrouter: bool = False
) -> AsyncIterator[Chat]:
    holder: list[Chat] = []
    server: ModelServer = (
        OpenRouterWorld(api_key=KEY, accepts_cache_control=True)
        if at_openrouter
        else FakeAnthropic(api_key=KEY, clock=lambda: holder[0].now)
    )
    async with server:
        holder.append(Chat(server, workspace=workspace))
        model = "openrouter/anthropic/claude-sonnet-4.5" if at_openrouter else MODEL
        llm: LLMClient = LiteLLMClient(
            model,
            base_url=server.base_url,
            api_key=KEY,
            context_length=200_000,
            supports_tools=True,
            timeout=20,
        )
        try:
            yield await _begin(holder[0], llm, strategy, ttl)
        finally:
            await llm.close()


async def _begin(chat: Chat, llm: LLMClient, strategy: Strategy, ttl: CacheTTL) -> Chat:
    store = await temporary_store()
    caching = PromptCaching(strategy=strategy, cache_ttl=ttl, clock=chat.clock)
    chat.agent = make_agent(llm, store.sessions, [look_up], caching=caching)
    chat.conversation = await store.sessions.open_conversation(Address("web", "chat"), person="owner")
    return chat


def rows(body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """All blocks in the order in which the provider reads them."""
    return [
        *(("tool", tool) for tool in body.get("tools", [])),
        *(("system", block) for block in blocks_of(body.get("system", []))),
        *((m["role"], block) for m in body["messages"] for block in blocks_of(m.get("content") or [])),
    ]


def bytes_of(body: dict[str, Any]) -> list[str]:
    """The blocks without their markers."""
    return [
        role + compact({name: value for name, value in block.items() if name != "cache_control"})
        for role, block in rows(body)
    ]


def markers(body: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """(role, kind of block, marker) for each marked block."""
    return [
        (role, block.get("type", ""), block["cache_control"])
        for role, block in rows(body)
        if "cache_control" in block
    ]


def read(seen: Seen) -> int:
    count: int = seen.usage["cache_read_input_tokens"]
    return count


@pytest.mark.parametrize("strategy", ["system_and_3", "turn_aware"])
async def test_each_request_extends_the_one_before(tmp_path: Path, strategy: Strategy) -> None:
    """Byte for byte, markers aside: otherwise there would be nothing to read."""
    async with open_chat(tmp_path, strategy) as chat:
        await chat.four_turns()
        sent = [bytes_of(body) for body in chat.bodies()]
    assert len(sent) == 8
    for before, after in pairwise(sent):
        assert len(after) > len(before)
        assert after[: len(before)] == before


@pytest.mark.parametrize("strategy", ["system_and_3", "turn_aware"])
async def test_reads_grow_and_the_bill_shrinks(tmp_path: Path, strategy: Strategy) -> None:
    """Each request reads what the one before wrote; our usage is the provider's count, and it costs less."""
    async with open_chat(tmp_path, strategy) as chat:
        await chat.four_turns()
        requests = chat.server.requests
    reads = [read(seen) for seen in requests]
    writes = [seen.usage["cache_creation_input_tokens"] for seen in requests]
    assert reads[0] == 0
    assert reads[1:] == [before + new for before, new in zip(reads, writes, strict=True)][:-1]
    assert [usage.cache_read_tokens for usage in chat.usage] == reads
    assert [usage.cache_write_tokens for usage in chat.usage] == writes
    assert all(u.prompt_tokens == u.cache_read_tokens + u.cache_write_tokens for u in chat.usage)
    assert sum(usage.cost_usd or 0.0 for usage in chat.usage) < 0.6 * await uncached_cost(chat.usage)


async def uncached_cost(usage: list[Usage]) -> float:
    facts = await asyncio.to_thread(lookup, MODEL)
    assert facts is not None and facts.prices is not None
    return sum(
        facts.prices.input * each.prompt_tokens + facts.prices.output * each.completion_tokens
        for each in usage
    )


async def test_system_and_3_marks_the_right_blocks(tmp_path: Path) -> None:
    """The system prompt and the last three messages, in a tool loop too."""
    async with open_chat(tmp_path, "system_and_3") as chat:
        await chat.four_turns()
        bodies = chat.bodies()
    assert markers(bodies[0]) == [("system", "text", FIVE_MINUTES), ("user", "text", FIVE_MINUTES)]
    assert markers(bodies[4]) == [
        ("system", "text", FIVE_MINUTES),
        ("assistant", "text", FIVE_MINUTES),
        ("user", "tool_result", FIVE_MINUTES),
        ("user", "tool_result", FIVE_MINUTES),
    ]


async def test_turn_aware_marks_the_right_blocks(tmp_path: Path) -> None:
    """Tools and system prompt; where the last request wrote; the end, for an hour or for five minutes."""
    async with open_chat(tmp_path, "turn_aware") as chat:
        await chat.four_turns()
        bodies = chat.bodies()
    head = [("tool", "custom", HOUR), ("system", "text", HOUR)]
    assert markers(bodies[0]) == [*head, ("user", "text", HOUR)]
    assert all(markers(body)[:2] == head and len(markers(body)) == 4 for body in bodies[1:])
    for before, after in pairwise(bodies):
        ends_at = len(rows(before)) - 1
        assert "cache_control" in rows(after)[ends_at][1], "a marker stays where the last request wrote"
        assert "cache_control" in rows(after)[-1][1]


@pytest.mark.parametrize(
    ("strategy", "ttl", "reads"),
    [("system_and_3", "5m", False), ("system_and_3", "1h", True), ("turn_aware", "5m", True)],
)
async def test_after_ten_minutes(tmp_path: Path, strategy: Strategy, ttl: CacheTTL, reads: bool) -> None:
    """Five minutes are over: only what was kept for an hour is read."""
    async with open_chat(tmp_path, strategy, ttl) as chat:
        await chat.four_turns()
        await chat.say("Sorry, I was away.", after=600)
        last = chat.server.requests[-1]
    assert chat.usage[-1].cache_read_tokens == read(last)
    assert (read(last) > chat.usage[-1].prompt_tokens / 2) is reads


async def test_the_markers_are_the_only_difference(tmp_path: Path) -> None:
    """Both strategies say the same to the model."""
    said = []
    for strategy in ("system_and_3", "turn_aware"):
        async with open_chat(tmp_path, strategy) as chat:
            await chat.four_turns()
            said.append([json.dumps(bytes_of(body)) for body in chat.bodies()])
    assert said[0] == said[1]


@pytest.mark.parametrize("strategy", ["system_and_3", "turn_aware"])
async def test_openrouter_gets_markers_inside_text_only(tmp_path: Path, strategy: Strategy) -> None:
    """Beside a message they hang or do not count, and an empty message with one would be refused."""
    async with open_chat(tmp_path, strategy, at_openrouter=True) as chat:
        chat.server.reply(tool_calls=[Call("look_up", {"topic": "rules"})])
        chat.server.reply("That is all.")
        await chat.say("Tell me about the rules.")
        await chat.say("Thank you.")
        bodies = chat.bodies()
    for body in bodies:
        assert 2 <= len(markers({**body, "tools": []})) <= 4
        assert not any("cache_control" in message for message in (*body["messages"], *body["tools"]))
        assert not any(block.get("text", "") is None for _, block in rows(body))
