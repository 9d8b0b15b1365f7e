"""How to test something that talks to a model: read this as the example."""

from __future__ import annotations

import asyncio

import pytest

from agent.errors import RateLimited, StreamCut
from agent.llm import ChatRequest, Completion, TextChunk, Usage
from agent.messages import ToolCall
from agent.testing import ScriptedLLM

HELLO = ChatRequest([{"role": "user", "content": "Hello"}])


async def test_a_text_is_streamed_word_by_word() -> None:
    """The simplest script is a list of answers."""
    llm = ScriptedLLM(["Good morning to you."])
    *pieces, completion = [event async for event in llm.stream(HELLO)]
    assert pieces == [TextChunk("Good"), TextChunk(" morning"), TextChunk(" to"), TextChunk(" you.")]
    assert isinstance(completion, Completion)
    assert (completion.text, completion.finish_reason) == ("Good morning to you.", "stop")


async def test_requests_are_kept() -> None:
    """After the test, look at what the model was asked."""
    llm = ScriptedLLM(["One.", "Two."])
    await llm.complete(HELLO)
    await llm.complete(ChatRequest([{"role": "user", "content": "And now?"}], temperature=0.5))
    assert [request.messages[-1]["content"] for request in llm.requests] == ["Hello", "And now?"]
    assert llm.requests[1].temperature == 0.5


async def test_tool_calls_beside_text() -> None:
    """A list says what happens in order; with a call in it, the answer ends in tool calls."""
    call = ToolCall("call_1", "read_file", '{"path": "notes.txt"}')
    llm = ScriptedLLM([["Let me look.", call]])
    completion = await llm.complete(HELLO)
    assert (completion.text, completion.tool_calls) == ("Let me look.", (call,))
    assert completion.finish_reason == "tool_calls"


async def test_an_error_instead_of_an_answer() -> None:
    """An error is raised, and the next request plays the next step."""
    llm = ScriptedLLM([RateLimited(retry_after=2), "Now it works."])
    with pytest.raises(RateLimited):
        await llm.complete(HELLO)
    assert (await llm.complete(HELLO)).text == "Now it works."


async def test_an_error_in_the_middle() -> None:
    """What was said before the error has been streamed by then."""
    llm = ScriptedLLM([["Once upon", StreamCut(partial_text="Once upon")]])
    seen = []
    with pytest.raises(StreamCut):
        async for event in llm.stream(HELLO):
            seen.append(event)
    assert seen == [TextChunk("Once upon")]


async def test_waiting_in_the_middle_of_an_answer() -> None:
    """An event holds the answer, so that a test can act while the model is speaking."""
    gate = asyncio.Event()
    events = ScriptedLLM([["Once", gate, " upon a time"]]).stream(HELLO)
    assert await anext(events) == TextChunk("Once")
    rest = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    assert not rest.done()
    gate.set()
    assert await rest == TextChunk(" upon a time")


async def test_an_answer_that_depends_on_the_question() -> None:
    """A function gets the request and returns any kind of step."""
    llm = ScriptedLLM([lambda request: f"You said {request.messages[-1]['content']}."])
    assert (await llm.complete(HELLO)).text == "You said Hello."


async def test_full_control() -> None:
    """A whole completion is played as it is, usage and all."""
    scripted = Completion("Enough.", finish_reason="length", usage=Usage(90_000, 2), model="scripted/model")
    *pieces, completion = [event async for event in ScriptedLLM([scripted]).stream(HELLO)]
    assert completion == scripted
    assert pieces == [TextChunk("Enough.")]


async def test_tokens_grow_with_the_conversation() -> None:
    """Usage is plausible without being scripted."""
    llm = ScriptedLLM(["Yes."] * 2)
    short = await llm.complete(HELLO)
    long = await llm.complete(ChatRequest([{"role": "user", "content": "word " * 100}]))
    assert 0 < short.usage.prompt_tokens < 20 < 100 < long.usage.prompt_tokens
    assert (short.usage.completion_tokens, short.usage.cost_usd) == (1, 0.0)


async def test_a_script_that_is_too_short_says_so() -> None:
    """Better than hanging or inventing an answer."""
    llm = ScriptedLLM(["Only one."])
    llm.then("And another.")
    await llm.complete(HELLO)
    await llm.complete(HELLO)
    with pytest.raises(AssertionError, match="no step for request 3"):
        await llm.complete(HELLO)
