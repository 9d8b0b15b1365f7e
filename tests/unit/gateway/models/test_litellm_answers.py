"""Answers over the real client and real sockets: text, tool calls, usage, price."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest

from agent.messages import ToolCall
from tests.fakes.anthropic.server import FakeAnthropic
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Call
from tests.support.model_routes import Route, ask, collect, open_route

CITIES = ({"city": "Oslo"}, {"city": "Ulan-Ude"})
LONG_SYSTEM = "Rule. " * 1500


async def test_text_arrives_in_pieces(route: Route) -> None:
    """Each piece is passed on as it comes, and the completion holds them all."""
    route.server.reply(chunks=["Good ", "morning", " to you."])
    pieces, completion = await collect(route.client.stream(ask()))
    assert [piece for piece in pieces if piece] == ["Good ", "morning", " to you."]
    assert completion.text == "Good morning to you."
    assert (completion.finish_reason, completion.model) == ("stop", route.client.model)


async def test_text_in_one_piece(route: Route) -> None:
    """`complete` asks without streaming."""
    route.server.reply("Good morning.")
    completion = await route.client.complete(ask())
    assert (completion.text, completion.finish_reason) == ("Good morning.", "stop")
    assert "stream" not in route.server.requests[0].body


async def test_usage_is_what_the_server_counted(route: Route) -> None:
    """Streamed or not, the tokens are the provider's own, with a price from litellm's table."""
    route.server.reply("Good morning.")
    route.server.reply("Good morning.")
    _, streamed = await collect(route.client.stream(ask()))
    whole = await route.client.complete(ask())
    counted = route.server.requests[0].usage
    assert streamed.usage.prompt_tokens == counted.get("prompt_tokens", counted.get("input_tokens"))
    assert streamed.usage.completion_tokens == 4
    assert whole.usage == streamed.usage
    assert streamed.usage.cost_usd is not None and 0 < streamed.usage.cost_usd < 0.001


async def test_a_model_without_a_known_price_costs_none(route: Route) -> None:
    """An unknown price is not a price of zero."""
    provider = route.client.model.partition("/")[0]
    client = route.another_client(model=f"{provider}/house-model")
    assert (await client.complete(ask())).usage.cost_usd is None
    assert (await collect(client.stream(ask())))[1].usage.cost_usd is None
    await client.close()


@pytest.mark.parametrize("streamed", [True, False])
async def test_parallel_tool_calls(route: Route, streamed: bool) -> None:
    """Two calls in one answer keep their order, ids and arguments, beside the text before them."""
    calls = [Call("weather", city, id=f"call_{n}") for n, city in enumerate(CITIES)]
    route.server.reply("Let me look.", tool_calls=calls)
    request = ask(tools=True)
    answer = (
        (await collect(route.client.stream(request)))[1] if streamed else await route.client.complete(request)
    )
    assert answer.text == "Let me look."
    assert answer.finish_reason == "tool_calls"
    assert answer.tool_calls == (
        ToolCall("call_0", "weather", '{"city": "Oslo"}'),
        ToolCall("call_1", "weather", '{"city": "Ulan-Ude"}'),
    )


async def test_arguments_in_single_characters(route: Route) -> None:
    """However small the pieces are, they are joined in order."""
    route.server.reply(tool_calls=[Call("weather", list('{"city": "Zürich"}'))])
    _, completion = await collect(route.client.stream(ask(tools=True)))
    assert completion.tool_calls[0].arguments == '{"city": "Zürich"}'


async def test_interleaved_calls_are_told_apart() -> None:
    """Pieces of two calls that arrive in turns go to the call with their index."""
    async with open_route(FakeOpenAI) as route:
        route.server.reply(tool_calls=[Call("weather", city) for city in CITIES], interleave=True)
        _, completion = await collect(route.client.stream(ask(tools=True)))
    assert [call.arguments for call in completion.tool_calls] == ['{"city": "Oslo"}', '{"city": "Ulan-Ude"}']


async def test_broken_arguments_reach_the_caller_as_they_are(route: Route) -> None:
    """Broken JSON is for the loop to explain to the model, not for the client to repair."""
    route.server.reply(tool_calls=[Call("weather", '{"city": "Os')])
    _, completion = await collect(route.client.stream(ask(tools=True)))
    assert completion.tool_calls[0].arguments == '{"city": "Os'


async def test_a_history_with_broken_arguments_is_accepted(route: Route) -> None:
    """After a broken call the model gets an error as its result; that history can still be sent."""
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Os'}}
    request = ask(tools=True)
    request.messages.extend(
        [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "The arguments are not valid JSON."},
        ]
    )
    route.server.reply("I will try again.")
    assert (await route.client.complete(request)).text == "I will try again."
    assert not route.server.refusals


async def test_a_call_without_arguments_has_an_empty_object(route: Route) -> None:
    """Some models send nothing at all for a tool without parameters."""
    route.server.reply(tool_calls=[Call("weather", [])])
    _, completion = await collect(route.client.stream(ask(tools=True)))
    assert completion.tool_calls[0].arguments == "{}"


async def test_the_limit_on_tokens_is_passed_on(route: Route) -> None:
    """An answer stopped by `max_tokens` says so; the request's limit wins over the configured one."""
    client = route.another_client(max_tokens=500)
    route.server.reply("word " * 100)
    short = await client.complete(ask(max_tokens=5))
    assert (short.finish_reason, short.usage.completion_tokens) == ("length", 5)
    await client.complete(ask())
    assert [seen.body["max_tokens"] for seen in route.server.requests] == [5, 500]
    await client.close()


async def test_a_filtered_answer_says_so(route: Route) -> None:
    """A refusal by the provider's filter is not a normal stop."""
    route.server.reply("I cannot", finish="content_filter")
    assert (await collect(route.client.stream(ask())))[1].finish_reason == "content_filter"


async def test_tool_choice_none_is_passed_on(route: Route) -> None:
    """The tools stay in the request, for the sake of the cache, but the model may not call them."""
    await route.client.complete(ask(tools=True, tool_choice="none"))
    await route.client.complete(ask(tools=True))
    forbidden, free = (seen.body for seen in route.server.requests)
    assert forbidden["tool_choice"] in ("none", {"type": "none"})
    assert "tool_choice" not in free
    assert forbidden["tools"] == free["tools"]


async def test_no_tools_for_a_model_that_cannot_call_them(route: Route) -> None:
    """A model without tools is not told about any."""
    client = route.another_client(supports_tools=False)
    await client.complete(ask(tools=True, tool_choice="none"))
    assert not {"tools", "tool_choice"} & route.server.requests[0].body.keys()
    await client.close()


async def test_the_request_is_left_untouched(route: Route) -> None:
    """The caller's messages are stored history: nothing may rewrite them."""
    request = ask(tools=True)
    request.messages[0]["content"] = [
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
        if _anthropic(route)
        else {"type": "text", "text": "Be brief."}
    ]
    before = deepcopy(request)
    await collect(route.client.stream(request))
    assert request == before


async def test_markers_arrive_and_the_cache_is_reported() -> None:
    """`cache_control` passes through; what was written and read comes back in the usage, and costs less."""
    async with open_route(FakeAnthropic) as route:
        request = ask(tools=True)
        marked = {"type": "text", "text": LONG_SYSTEM, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
        request = replace(request, messages=[{"role": "system", "content": [marked]}, *request.messages[1:]])
        _, first = await collect(route.client.stream(request))
        second = await route.client.complete(request)
    assert route.server.requests[0].body["system"] == [marked]
    assert first.usage.cache_write_tokens > 2000 and first.usage.cache_read_tokens == 0
    assert second.usage.cache_read_tokens == first.usage.cache_write_tokens
    assert second.usage.cache_write_tokens == 0
    assert second.usage.prompt_tokens == first.usage.prompt_tokens > first.usage.cache_write_tokens
    assert second.usage.cost_usd is not None and first.usage.cost_usd is not None
    assert second.usage.cost_usd < first.usage.cost_usd / 10


async def test_openais_own_cache_is_reported() -> None:
    """OpenAI caches by itself; what it served counts as read."""
    async with open_route(FakeOpenAI) as route:
        request = ask()
        request.messages[0]["content"] = LONG_SYSTEM
        first = await route.client.complete(request)
        _, second = await collect(route.client.stream(request))
    assert first.usage.cache_read_tokens == 0
    assert 2000 < second.usage.cache_read_tokens <= second.usage.prompt_tokens
    assert second.usage.cost_usd is not None and first.usage.cost_usd is not None
    assert second.usage.cost_usd < first.usage.cost_usd


async def test_a_key_from_the_environment_stays_at_home(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server at another address, configured without a key, is not sent the real provider's."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-environment")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-of-the-environment")
    client = route.another_client(api_key=None)
    route.server.api_key = "not-needed"
    await client.complete(ask())
    assert "sk-secret" not in str(route.server.requests[0].headers)
    await client.close()


async def test_litellms_name_may_differ_from_ours(route: Route) -> None:
    """A model keeps its configured id although litellm knows it by another."""
    client = route.another_client(model="house/brownie", litellm_model=route.client.model)
    completion = await client.complete(ask())
    assert completion.model == client.model == "house/brownie"
    assert route.server.requests[0].body["model"] == route.client.model.partition("/")[2]
    await client.close()


def _anthropic(route: Route) -> bool:
    return isinstance(route.server, FakeAnthropic)
