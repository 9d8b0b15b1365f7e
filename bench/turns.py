"""What a turn costs: CPU with a model that takes no time, and a thousand conversations at once."""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from prometheus_client import generate_latest

from agent.events import TurnDone, TurnFailed
from agent.llm import ChatRequest, Completion, LLMClient, LLMEvent, TextChunk, Usage
from agent.llm.retry import RetryingLLM
from agent.store import Address
from gateway.commands import Commands
from gateway.core.gateway import Gateway
from gateway.core.observer import NULL_OBSERVER
from gateway.models.litellm_client import LiteLLMClient
from gateway.observability import Metrics
from gateway.plugins import Plugins
from gateway.store.sqlite.store import SqliteStore
from gateway.types import OWNER, InboundMessage
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Reply
from tests.support.agents import make_agent
from tests.support.configuration import current_config

ANSWER = ["word "] * 100


class SteadyLLM:
    """Answers with a hundred pieces after so many seconds."""

    model, context_length, supports_tools = "bench/steady", 128_000, False

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def stream(self, request: ChatRequest) -> AsyncGenerator[LLMEvent, None]:
        await asyncio.sleep(self._seconds)
        for piece in ANSWER:
            yield TextChunk(piece)
        yield Completion("".join(ANSWER), usage=Usage(1_000, 100), model=self.model)

    async def complete(self, request: ChatRequest) -> Completion:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing to close."""


@asynccontextmanager
async def _gateway(llm: LLMClient, metrics: Metrics | None = None) -> AsyncIterator[Gateway]:
    with tempfile.TemporaryDirectory() as folder:
        store = await SqliteStore.open(Path(folder) / "state.db")
        agent = make_agent(
            RetryingLLM([llm], guards=[metrics.model_guard]) if metrics else llm, store.sessions
        )
        gateway = Gateway(
            agent,
            store,
            Commands.discover(),
            Plugins(),
            settings=current_config(),
            workspaces=Path(folder),
            observer=metrics or NULL_OBSERVER,
        )
        yield gateway
        await gateway.close()
        await store.close()


async def _say(gateway: Gateway, chat: str) -> float:
    """Sends a message, waits for the whole answer, gives the seconds it took."""
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
    async with _gateway(llm, metrics) as gateway:
        await _say(gateway, "warm-up")
        began = time.process_time()
        for number in range(turns):
            await _say(gateway, str(number))
        return (time.process_time() - began) / turns * 1000


async def _through_litellm(turns: int) -> float:
    """A real socket to a server in another thread; its CPU is counted too, so this is an upper bound."""
    world = FakeOpenAI()
    world.script(lambda request: Reply(chunks=ANSWER))
    with world.in_thread():
        llm = LiteLLMClient(
            "openai/bench", context_length=128_000, supports_tools=False,
            api_key=world.api_key, base_url=world.base_url,
        )  # fmt: skip
        try:
            return await _cpu_per_turn(llm, turns)
        finally:
            await llm.close()


async def _crowd(people: int) -> tuple[float, float, float]:
    """All at once on a model that takes a second: total seconds, slowest person, MB grown."""
    async with _gateway(SteadyLLM(1.0)) as gateway:
        await _say(gateway, "warm-up")
        before = _rss()
        began = time.perf_counter()
        waits = await asyncio.gather(*(_say(gateway, str(number)) for number in range(people)))
        return time.perf_counter() - began, max(waits), _rss() - before


def _rss() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _without_and_with_metrics() -> tuple[float, float]:
    """In turns, so that a machine that slows down slows both."""
    plain, counted = [], []
    for _ in range(5):
        plain.append(asyncio.run(_cpu_per_turn(SteadyLLM(0.0), 200)))
        counted.append(asyncio.run(_cpu_per_turn(SteadyLLM(0.0), 200, Metrics())))
    return min(plain), min(counted)


def _scrape_seconds() -> float:
    metrics = Metrics()
    asyncio.run(_cpu_per_turn(SteadyLLM(0.0), 20, metrics))
    began = time.perf_counter()
    for _ in range(100):
        generate_latest(metrics.registry)
    return (time.perf_counter() - began) / 100


def rows() -> list[tuple[str, str, str, str]]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    own, measured = _without_and_with_metrics()
    litellm = asyncio.run(_through_litellm(30))
    total, slowest, grown = asyncio.run(_crowd(1_000))
    return [
        (
            "CPU of a turn, 100 pieces, zero-latency model",
            f"{own:.1f} ms",
            "-",
            "linear in pieces and history",
        ),
        (
            "the same while metrics are counted",
            f"{measured:.1f} ms, {measured / own:.2f}x; to write them out {_scrape_seconds() * 1000:.1f} ms",
            "1.10x",
            "a check per piece, the rest per turn",
        ),
        (
            "the same through litellm and a socket",
            f"{litellm:.0f} ms, {litellm / own:.0f}x (server included)",
            "-",
            "linear in pieces",
        ),
        (
            "1,000 conversations at once, model takes 1 s",
            f"{total:.1f} s for all, slowest {slowest:.1f} s, +{grown:.0f} MB",
            "near 1 s",
            "linear in conversations (CPU above)",
        ),
    ]
