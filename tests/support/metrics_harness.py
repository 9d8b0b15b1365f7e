"""Harness: a web chat with metrics, and a parser for `/metrics`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from agent.llm.retry import RetryingLLM
from gateway.observability.metrics import Metrics
from gateway.platforms.base import Platform
from gateway.store.sqlite.store import SqliteStore
from tests.support.agents import make_agent
from tests.support.gateways import make_gateway, serving
from tests.support.web_harness import Script, WebHarness, look_up


@dataclass
class MetricsHarness(WebHarness):
    metrics: Metrics
    platforms: list[Platform]

    async def scraped(self, **options: Any) -> Scraped:
        status, text = await self.get("/metrics", **options)
        assert status == 200, text
        return Scraped(text)


class Scraped:
    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}

    def __call__(self, name: str, **labels: str) -> float | None:
        """Return the value of the series with exactly these labels; None if there is none."""
        found = [
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        ]
        assert len(found) <= 1, found
        return found[0] if found else None


@asynccontextmanager
async def metrics_harness(
    folder: Path, store: SqliteStore | None = None, **options: Any
) -> AsyncIterator[MetricsHarness]:
    metrics, script, store = Metrics(), Script(), store or await SqliteStore.open(folder / "measured.db")
    agent = make_agent(
        RetryingLLM([script.llm], attempts=1, guards=[metrics.model_guard]),
        store.sessions,
        [look_up],
        watch=metrics.compaction,
        home=folder / "home",
    )
    metrics.register_tools(["look_up"])
    gateway = make_gateway(agent, store, folder, observer=metrics)
    metrics.attach(gateway)
    platforms: list[Platform] = []
    async with (
        serving(gateway, metrics=metrics, platforms=platforms, **options) as web,
        aiohttp.ClientSession() as http,
    ):
        platforms.append(web)
        yield MetricsHarness(script, store, gateway, web, http, metrics, platforms)
        await gateway.close()
    await store.close()
