"""Start and turns: import time and memory of the process, CPU of a turn, and a thousand conversations at once."""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from prometheus_client import generate_latest

from agent.events import TurnDone, TurnFailed
from agent.llm import LLMClient
from agent.llm.retry import RetryingLLM
from agent.store import Address
from bench.measure import TEMPORARY, Row, SteadyLLM, opened_store, running_gateway
from gateway.core.events import NULL_OBSERVER
from gateway.core.gateway import Gateway
from gateway.models.litellm_client import LiteLLMClient
from gateway.observability.metrics import Metrics
from gateway.types import OWNER, InboundMessage
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Reply

ANSWER = ["word "] * 100

# Not `ru_maxrss`, which a new process inherits from its parent.
_PROBE = r"""
import json, re, sys, time
from pathlib import Path
began = time.process_time()
{imports}
cpu = time.process_time() - began
rss = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024
heavy = [name for name in ("litellm", "xllamacpp", "openai") if name in sys.modules]
print(json.dumps([cpu * 1000, rss, heavy]))
"""


def rows() -> list[Row]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    return [*_start_rows(), *_turn_rows()]


def _start_rows() -> list[Row]:
    bare_cpu, bare_rss = _imported("pass")
    cpu, rss = _imported("import gateway.run")
    web_cpu, web_rss = _imported("import gateway.run, gateway.platforms.web")
    cli_cpu, cli_rss = _imported("import gateway.cli")
    return [
        ("import gateway.run, CPU", f"{cpu - bare_cpu:.0f} ms", "< 350 ms", "constant"),
        ("import gateway.run, RSS", f"{rss:.0f} MB (bare Python {bare_rss:.0f})", "-", "constant"),
        ("... with the web platform", f"{web_cpu - bare_cpu:.0f} ms, {web_rss:.0f} MB", "-", "constant"),
        ("import gateway.cli, CPU", f"{cli_cpu - bare_cpu:.0f} ms, {cli_rss:.0f} MB", "-", "constant"),
    ]


def _imported(imports: str) -> tuple[float, float]:
    """Return the median CPU milliseconds and MB of seven new processes."""
    runs = []
    for _ in range(7):
        probe = [sys.executable, "-c", _PROBE.format(imports=imports)]
        cpu, rss, heavy = json.loads(subprocess.run(probe, check=True, capture_output=True, text=True).stdout)
        assert not heavy, f"imported too early: {heavy}"
        runs.append((cpu, rss))
    return statistics.median(cpu for cpu, _ in runs), statistics.median(rss for _, rss in runs)


def _turn_rows() -> list[Row]:
    own, measured = _without_and_with_metrics()
    litellm = asyncio.run(_through_litellm(30))
    total, slowest, grown = asyncio.run(_crowd(1_000))
    return [
        (
            "CPU of a turn, 100 chunks, zero-latency model",
            f"{own:.1f} ms",
            "-",
            "linear in chunks and history",
        ),
        (
            "the same with metrics",
            f"{measured:.1f} ms, {measured / own:.2f}x; to write them out {_scrape_seconds() * 1000:.1f} ms",
            "1.10x",
            "a check per chunk, the rest per turn",
        ),
        (
            "the same through litellm and a socket",
            f"{litellm:.0f} ms, {litellm / own:.0f}x (server included)",
            "-",
            "linear in chunks",
        ),
        (
            "1,000 conversations at once, model takes 1 s",
            f"{total:.1f} s for all, slowest {slowest:.1f} s, +{grown:.0f} MB",
            "near 1 s",
            "linear in conversations (CPU above)",
        ),
    ]


@asynccontextmanager
async def _gateway(llm: LLMClient, metrics: Metrics | None = None) -> AsyncIterator[Gateway]:
    with tempfile.TemporaryDirectory(prefix=TEMPORARY) as home:
        folder = Path(home)
        llm = RetryingLLM([llm], guards=[metrics.model_guard]) if metrics else llm
        async with (
            opened_store(folder) as store,
            running_gateway(llm, store, folder, observer=metrics or NULL_OBSERVER) as gateway,
        ):
            yield gateway


async def _say(gateway: Gateway, chat: str) -> float:
    """Send a message, wait for the whole answer, and return the seconds that took."""
    began = time.perf_counter()
    address = Address("bench", chat)
    conversation = await gateway.store.sessions.open_conversation(address, person=OWNER)
    with gateway.hub.watch(conversation.id, after=gateway.hub.last_number(conversation.id)) as watcher:
        await gateway.receive(InboundMessage(address, OWNER, "How is the weather?"))
        async for envelope in watcher:
            if isinstance(envelope.event, TurnFailed):
                raise RuntimeError(envelope.event.error)
            if isinstance(envelope.event, TurnDone):
                break
    return time.perf_counter() - began


async def _cpu_per_turn(llm: LLMClient, turns: int, metrics: Metrics | None = None) -> float:
    """Return milliseconds."""
    async with _gateway(llm, metrics) as gateway:
        await _say(gateway, "warm-up")
        began = time.process_time()
        for number in range(turns):
            await _say(gateway, str(number))
        return (time.process_time() - began) / turns * 1000


async def _through_litellm(turns: int) -> float:
    """Use a real socket to a server in another thread. Its CPU is counted too, so this is an upper bound."""
    server = FakeOpenAI()
    server.script(lambda request: Reply(chunks=ANSWER))
    with server.in_thread():
        connection = {"api_key": server.api_key, "base_url": server.base_url}
        llm = LiteLLMClient("openai/bench", context_length=128_000, supports_tools=False, **connection)
        try:
            return await _cpu_per_turn(llm, turns)
        finally:
            await llm.close()


async def _crowd(people: int) -> tuple[float, float, float]:
    """Let all write at once to a model that takes a second. Return total seconds, the longest wait, MB grown."""
    async with _gateway(SteadyLLM(ANSWER, seconds=1.0)) as gateway:
        await _say(gateway, "warm-up")
        before = _rss()
        began = time.perf_counter()
        waits = await asyncio.gather(*(_say(gateway, str(number)) for number in range(people)))
        return time.perf_counter() - began, max(waits), _rss() - before


def _rss() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _without_and_with_metrics() -> tuple[float, float]:
    """Alternate, so that a machine that slows down slows both."""
    plain, counted = [], []
    for _ in range(5):
        plain.append(asyncio.run(_cpu_per_turn(SteadyLLM(ANSWER), 200)))
        counted.append(asyncio.run(_cpu_per_turn(SteadyLLM(ANSWER), 200, Metrics())))
    return min(plain), min(counted)


def _scrape_seconds() -> float:
    metrics = Metrics()
    asyncio.run(_cpu_per_turn(SteadyLLM(ANSWER), 20, metrics))
    began = time.perf_counter()
    for _ in range(100):
        generate_latest(metrics.registry)
    return (time.perf_counter() - began) / 100
