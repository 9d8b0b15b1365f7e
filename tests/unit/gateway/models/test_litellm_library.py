"""litellm as a library that is loaded late, reaches for no network, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.models.litellm_runtime import load_litellm
from tests.fakes.anthropic.server import FakeAnthropic
from tests.fakes.model_server import ModelServer
from tests.fakes.openai.server import FakeOpenAI
from tests.support.model_routes import KEY, Route, ask, collect, make_client

ROOT = Path(__file__).parents[4]

LOADS_LATE_AND_OFFLINE = """
import asyncio, os, sys, time, warnings

warnings.simplefilter("error", ResourceWarning)

FORBIDDEN = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request")

def no_network(event, args):
    if event in FORBIDDEN:
        os.write(2, f"reached for the network: {event} {args}".encode())
        os._exit(1)

sys.addaudithook(no_network)
from gateway.models.litellm_client import LiteLLMClient
from gateway.models import litellm_runtime
client = LiteLLMClient("openai/gpt-4o-mini", context_length=1, supports_tools=True)
assert not {"litellm", "openai", "httpx", "tiktoken"} & sys.modules.keys(), "imported too early"

async def main():
    ticks = 0
    loading = asyncio.gather(litellm_runtime.load_litellm(), litellm_runtime.load_litellm())
    while not loading.done():
        await asyncio.sleep(0.01)
        ticks += 1
    first, second = await loading
    assert first.litellm is second.litellm
    assert first.litellm.telemetry is False and not first.litellm.set_verbose
    assert ticks > 20, f"the event loop stood still: {ticks} ticks"
    await client.close()

asyncio.run(main())
assert "HERMES_TRAP" not in os.environ, "a .env file was loaded"
print("ok")
"""


def test_loading_is_late_and_needs_no_network(tmp_path: Path) -> None:
    """Importing the client loads nothing heavy; first use loads litellm offline, beside a running loop."""
    (tmp_path / ".env").write_text("HERMES_TRAP=1\n")
    done = subprocess.run(
        [sys.executable, "-c", LOADS_LATE_AND_OFFLINE],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("ok\n", 0), done.stderr


async def test_a_closed_client_does_not_disturb_the_others(route: Route) -> None:
    """litellm shares connections between clients; they stay open while one client is in use."""
    other = route.another_client()
    route.server.hang("Once upon a time", after=2)
    story = asyncio.create_task(collect(route.client.stream(ask())))
    await route.server.waiting()
    await other.close()
    route.server.release()
    assert (await story)[1].text == "Once upon a time"


async def test_a_client_can_be_used_after_all_were_closed(route: Route) -> None:
    """Closing puts connections away; the next call opens new ones."""
    await route.client.complete(ask())
    await route.client.close()
    assert (await route.client.complete(ask())).text == "You said: Hi"
    await route.client.close()


async def test_closing_leaves_nothing_behind(route: Route) -> None:
    """No task is left running and no session is left open, after good calls and failed ones."""
    before = asyncio.all_tasks()
    await collect(route.client.stream(ask()))
    await route.client.complete(ask())
    route.server.drop("Once upon a time", after=2)
    with pytest.raises(Exception, match="cut off"):
        await collect(route.client.stream(ask()))
    await route.client.close()
    async with asyncio.timeout(5):
        await asyncio.gather(*asyncio.all_tasks() - before, return_exceptions=True)
    gc.collect()  # an open session would warn now, and warnings are errors


@pytest.mark.parametrize("kind", [FakeOpenAI, FakeAnthropic])
async def test_chunks_that_piled_up_leave_room_for_others(kind: type[ModelServer]) -> None:
    """A long answer that arrives faster than it is read is worked off in small steps, not in one go."""
    steps = 0

    async def others() -> None:
        nonlocal steps
        while True:
            steps += 1
            await asyncio.sleep(0)

    with kind(api_key=KEY).in_thread() as server:
        server.reply(" ".join(str(number) for number in range(300)))
        client = make_client(server)
        await load_litellm()
        events = client.stream(ask())
        await anext(events)
        neighbour = asyncio.create_task(others())
        moments = [steps async for _ in events]
        neighbour.cancel()
        await client.close()
    assert len(set(moments)) == len(moments) == 300
