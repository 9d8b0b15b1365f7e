"""The embedded model: real weights and a real loopback server, shared by these tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
import pytest_asyncio

from agent.errors import ContextOverflow
from agent.llm import ChatRequest, Completion, TextChunk
from agent.messages import ChatDict
from gateway.models.embedded import EmbeddedLLM
from tests.support.model_routes import chat_request

# Together, because to load and unload the model takes longer than most of them.
pytestmark = [
    pytest.mark.embedded,
    pytest.mark.asyncio(loop_scope="module"),
]

LONG_STORY = "Write a very long story about the sea, the ships and the people who sail them."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def llm() -> AsyncIterator[EmbeddedLLM]:
    llm = EmbeddedLLM(context_length=2048)
    yield llm
    await llm.close()


async def test_streams_an_answer_with_real_usage(llm: EmbeddedLLM) -> None:
    """Text arrives in pieces, the completion repeats it whole, and the tokens are counted and free."""
    async with aclosing(llm.stream(chat_request("Say hello.", max_tokens=24))) as events:
        received = [event async for event in events]
    *pieces, completion = received
    assert isinstance(completion, Completion)
    texts = [piece.text for piece in pieces if isinstance(piece, TextChunk)]
    assert len(texts) > 1
    assert completion.text == "".join(texts) != ""
    assert completion.model == llm.model == "embedded/smollm2"
    assert completion.usage.prompt_tokens > 10
    assert 1 < completion.usage.completion_tokens <= 24
    assert completion.usage.cost_usd == 0.0


async def test_answers_end_at_the_limit_asked_for(llm: EmbeddedLLM) -> None:
    """`max_tokens` cuts the answer, and the finish reason says so."""
    completion = await llm.complete(chat_request(LONG_STORY, max_tokens=8))
    assert (completion.finish_reason, completion.usage.completion_tokens) == ("length", 8)
    assert completion.usage.cost_usd == 0.0


async def test_the_next_turn_reads_the_cache(llm: EmbeddedLLM) -> None:
    """Another conversation in between does not cost the first one its cached prompt."""
    for text in (LONG_STORY * 8, "What is the capital of France?"):
        await llm.complete(chat_request(text, max_tokens=1))
    again = await llm.complete(chat_request(LONG_STORY * 8, max_tokens=1))
    assert again.usage.cache_read_tokens > again.usage.prompt_tokens / 2


async def test_overflow_is_reported_as_such(llm: EmbeddedLLM) -> None:
    """A prompt beyond the window is a ContextOverflow, streamed or not, and the next one is answered."""
    too_long = chat_request("word " * 3000)
    with pytest.raises(ContextOverflow):
        await llm.complete(too_long)
    with pytest.raises(ContextOverflow):
        async with aclosing(llm.stream(too_long)) as events:
            await anext(events)
    assert (await llm.complete(chat_request("Hi", max_tokens=4))).text


async def test_what_it_cannot_read_is_left_out(llm: EmbeddedLLM) -> None:
    """Images, tools and a history full of tool calls of a better model do not fail the turn."""
    call = {"id": "call_1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages: list[ChatDict] = [
        {"role": "user", "content": [{"type": "text", "text": "What is this?"}, picture]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "noon"},
    ]
    tool = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}
    completion = await llm.complete(ChatRequest(messages, tools=(tool,), max_tokens=4))
    assert completion.text
    assert not llm.supports_tools


async def test_closing_a_stream_stops_the_generation(llm: EmbeddedLLM) -> None:
    """One request runs at a time, so the next one would wait for the rest of an unwanted answer."""
    story, nothing = chat_request(LONG_STORY, max_tokens=160), chat_request(LONG_STORY, max_tokens=1)
    await llm.complete(nothing)
    began = time.process_time()
    whole = await llm.complete(story)
    whole_cost = time.process_time() - began
    assert whole.usage.completion_tokens > 80, "the story must be long enough to tell the difference"

    began = time.process_time()
    async with aclosing(llm.stream(story)) as events:
        await anext(events)
    await llm.complete(nothing)
    assert time.process_time() - began < whole_cost / 2


async def test_a_cancelled_request_frees_the_model(llm: EmbeddedLLM) -> None:
    """Cancelling while the answer is made, or while waiting for it, leaves the model to the others."""
    begun = asyncio.Event()

    async def read_story() -> None:
        async with aclosing(llm.stream(chat_request(LONG_STORY, max_tokens=1500))) as events:
            async for _ in events:
                begun.set()

    running = asyncio.create_task(read_story())
    await begun.wait()
    waiting = asyncio.create_task(llm.complete(chat_request(LONG_STORY, max_tokens=1500)))
    await asyncio.sleep(0)  # it is now queued
    for task in (waiting, running):
        task.cancel()
    await asyncio.wait([running, waiting])
    assert running.cancelled() and waiting.cancelled()
    assert (await llm.complete(chat_request("Hi", max_tokens=4))).text
