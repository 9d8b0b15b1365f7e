"""Harness: the dashboard on a real socket, with a store on disk and a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from axe_playwright_python.async_playwright import Axe

from gateway.config.loader import LoadedConfig
from gateway.config.schema import Config
from gateway.limits import Limits
from gateway.observability.metrics import Metrics
from gateway.platforms.base import Platform
from gateway.store.sqlite.store import SqliteStore
from tests.support.browser import Tab
from tests.support.gateways import serving
from tests.support.web_harness import Script, WebHarness, web_gateway

OWNER, READER = "owner-token-of-16-chars", "reader-token-of-16-chars"

SCRIPT = "<script>alert('x')</script><img src=x onerror=alert(1)>"
"""Input that every page must show as text."""

PHONE = {"width": 375, "height": 740}


@dataclass
class DashboardHarness(WebHarness):
    """A running dashboard and an HTTP client that is signed in as the owner."""

    async def page(self, path: str) -> str:
        """Return a page."""
        status, html = await self.get(path)
        assert status == 200, html
        return str(html)

    async def act(self, path: str, body: Any) -> str:
        """Press a button; return the sentence of the response."""
        status, answer = await self.post(path, body)
        assert status == 200, answer
        return str(answer["said"])


@asynccontextmanager
async def running_dashboard(
    folder: Path,
    *,
    config: Config | None = None,
    loaded: LoadedConfig | None = None,
    platforms: Sequence[Platform] = (),
    guarded: bool = False,
    metrics: Metrics | None = None,
) -> AsyncIterator[DashboardHarness]:
    """Start the dashboard; `guarded` sets both tokens and signs the client in as the owner."""
    store = await SqliteStore.open(folder / "state.db")
    script = Script()
    gateway = web_gateway(store, script, folder)
    loaded = loaded or LoadedConfig(config or Config(), None, folder)
    gateway.limits = Limits(loaded.config.limits, store.sessions)
    tokens = {"token": OWNER, "read_token": READER} if guarded else {}
    headers = bearer(OWNER) if guarded else {}
    async with (
        serving(gateway, loaded=loaded, platforms=platforms, metrics=metrics, **tokens) as web,
        aiohttp.ClientSession(headers=headers) as http,
    ):
        yield DashboardHarness(script, store, gateway, web, http)
        await gateway.close()
    await store.close()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def accessibility_violations(tab: Tab) -> list[str]:
    """Return the accessibility problems that axe finds on the open page."""
    found = await Axe().run(tab.page)
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found.response["violations"]]


async def scrolls_sideways(tab: Tab) -> bool:
    wider: bool = await tab.page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
    return wider
