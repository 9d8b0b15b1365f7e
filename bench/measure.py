"""Parts that several benchmarks share: timing, formatting, a store, and a gateway with a model that takes no time."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent.llm import ChatRequest, Completion, LLMClient, LLMEvent, TextChunk, Usage
from agent.tool import Tool
from gateway.commands import Commands
from gateway.core.gateway import Gateway
from gateway.plugins.loader import Plugins
from gateway.store.sqlite.store import SqliteStore
from tests.support.agents import make_agent
from tests.support.configuration import current_config

Row = tuple[str, str, str, str]
"""What is measured, the figure, the aim, and how the figure grows."""

TEMPORARY = "hermes-bench-"
"""Prefix of temporary folders."""


def cpu_ms(run: Callable[[], object], rounds: int = 7) -> float:
    """Return the CPU milliseconds of the fastest round, which is the least disturbed one."""
    spent = []
    for _ in range(rounds):
        began = time.process_time()
        run()
        spent.append(time.process_time() - began)
    return min(spent) * 1e3


def p50_and_p99(values: Sequence[float]) -> tuple[float, float]:
    return statistics.median(values), sorted(values)[int(len(values) * 0.99)]


def format_time(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds >= 0.001 else f"{seconds * 1e6:.0f} µs"


class SteadyLLM:
    """Answers every request with the same chunks, after a fixed delay."""

    model, context_length, supports_tools = "bench/steady", 128_000, False

    def __init__(self, chunks: Sequence[str], *, seconds: float = 0.0) -> None:
        self._chunks = chunks
        self._seconds = seconds

    async def stream(self, request: ChatRequest) -> AsyncGenerator[LLMEvent, None]:
        await asyncio.sleep(self._seconds)
        for chunk in self._chunks:
            yield TextChunk(chunk)
        yield Completion("".join(self._chunks), usage=Usage(1_000, 100), model=self.model)

    async def complete(self, request: ChatRequest) -> Completion:
        return Completion("".join(self._chunks), model=self.model)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


@asynccontextmanager
async def opened_store(folder: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(folder / "state.db")
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def running_gateway(
    llm: LLMClient, store: SqliteStore, folder: Path, tools: Sequence[Tool] = (), **more: Any
) -> AsyncIterator[Gateway]:
    agent = make_agent(llm, store.sessions, tools)
    gateway = Gateway(
        agent,
        store,
        Commands.discover(),
        Plugins(),
        settings=current_config(),
        workspaces=folder,
        **more,
    )
    try:
        yield gateway
    finally:
        await gateway.close()
