"""The loopback servers themselves: strict like the real ones, and usable from any side."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import Any

import aiohttp
import pytest

from tests.fakes.anthropic.server import FakeAnthropic
from tests.fakes.model_server import ModelServer
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Call, Reply

HI = {"role": "user", "content": "Hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
OPENAI_TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
TOOL = {"name": "f", "input_schema": {"type": "object"}}
USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
MARKED = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


OPENAI_REFUSES: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown field": ({"frobnicate": 1}, "Unrecognized request argument supplied: frobnicate"),
    "an unknown role": ({"messages": [{"role": "robot", "content": "Hi"}]}, "Invalid value: 'robot'"),
    "no messages": ({"messages": []}, "empty array"),
    "an unknown message field": (
        {"messages": [HI | {"mood": "good"}]},
        "Unknown parameter: 'messages[0].mood'",
    ),
    "a marker": ({"messages": [user(MARKED)]}, "content[0].cache_control"),
    "a name with a space": ({"messages": [HI | {"name": "Ada L"}]}, "'messages[0].name'"),
    "an assistant without content": ({"messages": [HI, {"role": "assistant", "content": None}]}, "got null"),
    "no tools in the list": ({"tools": []}, "Invalid 'tools': empty array"),
    "a choice without tools": ({"tool_choice": "none"}, "only allowed when 'tools' are specified"),
    "a tool name with a dot": (
        {"tools": [{"type": "function", "function": {"name": "a.b"}}]},
        "does not match pattern",
    ),
    "stream options without a stream": ({"stream_options": {}}, "only allowed when 'stream' is enabled"),
    "too hot": ({"temperature": 3}, "Invalid 'temperature'"),
    "a call without a result": (
        {"messages": [HI, {"role": "assistant", "content": None, "tool_calls": [CALL]}, HI]},
        "did not have response messages: c1",
    ),
    "a result without a call": (
        {"messages": [HI, {"role": "tool", "tool_call_id": "c1", "content": "ok"}]},
        "must be a response to a preceeding message",
    ),
}
ANTHROPIC_REFUSES: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown field": ({"frobnicate": 1}, "frobnicate: Extra inputs are not permitted"),
    "no limit": ({"max_tokens": None}, "max_tokens: Field required"),
    "a system message": ({"messages": [{"role": "system", "content": "x"}, HI]}, 'Unexpected role "system"'),
    "an assistant first": (
        {"messages": [assistant({"type": "text", "text": "x"}), HI]},
        "first message must use",
    ),
    "two users in a row": ({"messages": [HI, HI]}, "roles must alternate"),
    "an empty text": ({"messages": [user({"type": "text", "text": ""})]}, "must be non-empty"),
    "a blank text": ({"messages": [user({"type": "text", "text": " \n"})]}, "non-whitespace"),
    "a final space": ({"messages": [HI, assistant({"type": "text", "text": "So "})]}, "trailing whitespace"),
    "an unknown block": ({"messages": [user({"type": "song"})]}, "Input tag 'song'"),
    "an unknown block field": ({"messages": [user({"type": "text", "text": "x", "id": 1})]}, "text.id"),
    "a use without a result": (
        {"tools": [TOOL], "messages": [HI, assistant(USE), HI]},
        "immediately after: t1",
    ),
    "a use at the end": ({"tools": [TOOL], "messages": [HI, assistant(USE)]}, "immediately after: t1"),
    "a result after a text": (
        {"tools": [TOOL], "messages": [HI, assistant(USE), user({"type": "text", "text": "x"}, RESULT)]},
        "immediately after: t1",
    ),
    "a result without a use": ({"tools": [TOOL], "messages": [user(RESULT)]}, "unexpected `tool_use_id`"),
    "tool blocks without tools": ({"messages": [HI, assistant(USE), user(RESULT)]}, "must define tools"),
    "arguments that are no object": (
        {"tools": [TOOL], "messages": [HI, assistant(USE | {"input": "x"}), user(RESULT)]},
        "valid dictionary",
    ),
    "five markers": ({"messages": [user(*[MARKED] * 5)]}, "maximum of 4 blocks with cache_control"),
    "a longer life after a shorter one": (
        {"messages": [user(MARKED, MARKED | {"cache_control": {"type": "ephemeral", "ttl": "1h"}})]},
        "must not come after",
    ),
    "too hot": ({"temperature": 1.5}, "temperature"),
}


async def post(server: ModelServer, body: dict[str, Any], *, key: str = "test-key") -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {key}", "x-api-key": key, "anthropic-version": "2023-06-01"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(server.url + server.path, json=body, headers=headers) as response,
    ):
        is_json = response.content_type == "application/json"
        return response.status, await response.json() if is_json else await response.text()


def request_for(server: ModelServer, **changes: Any) -> dict[str, Any]:
    body = {"model": "m", "messages": [HI]} | (
        {"max_tokens": 100} if isinstance(server, FakeAnthropic) else {}
    )
    return {name: value for name, value in (body | changes).items() if value is not None}


@pytest.mark.parametrize("case", OPENAI_REFUSES)
async def test_openai_refuses(case: str) -> None:
    """A malformed request gets a 400 that names the fault, and is kept as a refusal."""
    changes, sentence = OPENAI_REFUSES[case]
    async with FakeOpenAI() as server:
        status, body = await post(server, request_for(server, **changes))
    assert (status, body["error"]["type"]) == (400, "invalid_request_error")
    assert sentence in body["error"]["message"]
    assert server.refusals == [body["error"]["message"]]


@pytest.mark.parametrize("case", ANTHROPIC_REFUSES)
async def test_anthropic_refuses(case: str) -> None:
    """The same with Anthropic's rules and Anthropic's form of an error."""
    changes, sentence = ANTHROPIC_REFUSES[case]
    async with FakeAnthropic() as server:
        status, body = await post(server, request_for(server, **changes))
    assert (status, body["type"], body["error"]["type"]) == (400, "error", "invalid_request_error")
    assert sentence in body["error"]["message"]
    assert server.refusals == [body["error"]["message"]]


async def test_well_formed_requests_pass() -> None:
    """Tools, results, parts and markers, where each belongs."""
    asked = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    done = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
    async with FakeOpenAI(accepts_cache_control=True) as openai, FakeAnthropic() as anthropic:
        messages = [{"role": "system", "content": [MARKED]}, HI, asked, done, user(MARKED)]
        await post(openai, request_for(openai, tools=[OPENAI_TOOL], messages=messages))
        messages = [HI, assistant(USE), user(RESULT, MARKED)]
        await post(anthropic, request_for(anthropic, tools=[TOOL], system=[MARKED], messages=messages))
    assert openai.refusals == anthropic.refusals == []


@pytest.mark.parametrize("kind", [FakeOpenAI, FakeAnthropic])
async def test_the_key_is_checked(kind: type[ModelServer]) -> None:
    """Any other key is turned away, before a scripted answer is spent."""
    async with kind(api_key="right") as server:
        assert (await post(server, request_for(server), key="wrong"))[0] == 401
        assert (await post(server, request_for(server), key="right"))[0] == 200


async def test_steps_then_the_handler_then_an_echo() -> None:
    """Scripted steps come first, in order; the handler sees the request; without either it echoes."""
    async with FakeOpenAI() as server:
        server.reply("One.")
        answers = [(await post(server, request_for(server)))[1]]
        answers.append((await post(server, request_for(server)))[1])
        server.script(lambda seen: Reply(f"{seen.body['model']} here"))
        answers.append((await post(server, request_for(server)))[1])
    texts = [answer["choices"][0]["message"]["content"] for answer in answers]
    assert texts == ["One.", "You said: Hi", "m here"]


async def test_a_stream_as_openai_sends_it() -> None:
    """A head, pieces, a reason, usage only when asked for, and the end mark."""
    async with FakeOpenAI() as server:
        server.reply("Hello there", tool_calls=[Call("f", ["{", "}"], id="c1")])
        body = request_for(server, stream=True, stream_options={"include_usage": True}, tools=[OPENAI_TOOL])
        _, text = await post(server, body)
    *events, end = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    chunks = [json.loads(event) for event in events]
    assert end == "[DONE]"
    assert [c["choices"][0]["delta"].get("content") for c in chunks[:3]] == ["", "Hello", " there"]
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert (chunks[-1]["choices"], chunks[-1]["usage"]["completion_tokens"]) == ([], 4)


async def test_a_stream_as_anthropic_sends_it() -> None:
    """Named events around content blocks, the usage at both ends."""
    async with FakeAnthropic() as server:
        server.reply("Hello", tool_calls=[Call("f", {})])
        _, text = await post(server, request_for(server, stream=True, tools=[TOOL]))
    names = [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert names == ["message_start", "ping", *block, *block, "message_delta", "message_stop"]
    assert '"stop_reason":"tool_use"' in text


async def test_the_models_can_be_listed() -> None:
    """For those who look before they ask."""
    async with FakeOpenAI(models=("small", "large")) as server, aiohttp.ClientSession() as session:
        headers = {"Authorization": "Bearer test-key"}
        async with session.get(f"{server.base_url}/models", headers=headers) as response:
            assert [model["id"] for model in (await response.json())["data"]] == ["small", "large"]
        assert (await post(server, request_for(server)))[0] == 404


async def test_hanging_until_released() -> None:
    """The test decides when the answer goes on."""
    async with FakeOpenAI() as server:
        server.hang("Patience.")
        answer = asyncio.create_task(post(server, request_for(server)))
        await server.waiting()
        assert not answer.done()
        server.release()
        assert (await answer)[0] == 200
        await server.request_count(1)


def test_from_a_test_without_an_event_loop() -> None:
    """The server runs in a thread; the test speaks to it like any other process would."""
    with FakeOpenAI().in_thread() as server:
        server.reply("From a thread.")
        request = urllib.request.Request(
            server.url + server.path,
            json.dumps(request_for(server)).encode(),
            {"Authorization": "Bearer test-key", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            answer = json.load(response)
        server.watch.until(lambda: len(server.requests) == 1).result(10)
    assert answer["choices"][0]["message"]["content"] == "From a thread."
