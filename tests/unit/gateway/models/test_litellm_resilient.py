"""The chain of models over the real client: retries and continuations that strict servers accept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import stamina

from agent.llm import ChatRequest, Completion, Retrying, TextChunk
from agent.llm.retry import RetryingLLM
from tests.fakes.anthropic.server import FakeAnthropic
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Call
from tests.support.model_routes import WEATHER, Route, ask, open_route


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    with stamina.set_testing(True, attempts=100, cap=True):
        yield


async def told(llm: RetryingLLM, request: ChatRequest) -> tuple[str, Completion, int]:
    """What was seen, the completion, and how often it was asked again."""
    events = [event async for event in llm.stream(request)]
    completion = events[-1]
    assert isinstance(completion, Completion)
    seen = "".join(event.text for event in events if isinstance(event, TextChunk))
    return seen, completion, sum(isinstance(event, Retrying) for event in events)


async def test_bad_weather_before_the_answer(route: Route) -> None:
    """Overloaded, dropped, rate limited: then it answers, without an unneeded request."""
    route.server.fail(529)
    route.server.drop()
    route.server.fail(429, retry_after=1)
    route.server.reply("Good morning.")
    seen, completion, retries = await told(RetryingLLM([route.client]), ask())
    assert (seen, completion.text, retries) == ("Good morning.", "Good morning.", 3)
    assert len(route.server.requests) == 4


@pytest.mark.parametrize("after", range(1, 6))
async def test_a_cut_answer_is_continued_wherever_it_broke(route: Route, after: int) -> None:
    """The continuation is a request a strict server accepts, and the person reads one text."""
    words = ["Once upon", " a time", " there was", " a bear", "."]
    route.server.cut(chunks=words, after=after)
    route.server.reply(chunks=words[after:])
    seen, completion, retries = await told(RetryingLLM([route.client]), ask())
    assert seen == completion.text == "Once upon a time there was a bear."
    assert (retries, route.server.refusals) == (1, [])


async def test_a_cut_after_tool_results(route: Route) -> None:
    """In the middle of a turn with tools the history ends with results; the continuation still fits."""
    request = ask(tools=True)
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
    }
    request.messages.extend(
        [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "Rain."},
        ]
    )
    route.server.cut("It rains in Oslo. Let me", after=5)
    route.server.reply(" also look at Bergen.", tool_calls=[Call("weather", {"city": "Bergen"})])
    seen, completion, _ = await told(RetryingLLM([route.client]), request)
    assert seen == completion.text == "It rains in Oslo. Let also look at Bergen."
    assert completion.tool_calls[0].arguments == '{"city": "Bergen"}'
    assert route.server.refusals == []


async def test_another_provider_goes_on() -> None:
    """A story begun by one provider is finished by the other, which gets its own form of the request."""
    async with open_route(FakeAnthropic) as first, open_route(FakeOpenAI) as second:
        first.server.cut("Once upon a time", after=2)
        first.server.fail(402)
        second.server.reply(" a time.")
        llm = RetryingLLM([first.client, second.client])
        seen, completion, _ = await told(llm, ask(tools=True))
    assert seen == completion.text == "Once upon a time."
    assert (llm.model, completion.model) == (first.client.model, second.client.model)
    assert second.server.requests[0].body["tools"] == [WEATHER]
