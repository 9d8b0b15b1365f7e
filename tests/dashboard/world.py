"""A dashboard on a real socket, over a store on the disk and a model that does what the test says."""

from __future__ import annotations

import asyncio
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
from gateway.observability import Metrics
from gateway.platforms.base import Platform
from gateway.platforms.web.dashboard import DashboardContext
from gateway.reload import LiveConfig
from gateway.store.sqlite.store import SqliteStore
from tests.web.browser import Tab
from tests.web.world import Script, World, make_gateway, serving

OWNER, READER = "owner-token-of-16-chars", "reader-token-of-16-chars"

SCRIPT = "<script>alert('x')</script><img src=x onerror=alert(1)>"
"""What must come out as text wherever it was put in."""

PHONE = {"width": 375, "height": 740}


@dataclass
class Watched(World):
    """A running Hermes and whoever looks at its dashboard. `get` and `post` are the owner's."""

    context: DashboardContext

    async def page(self, path: str) -> str:
        """As the owner sees it."""
        status, html = await self.get(path)
        assert status == 200, html
        return str(html)

    async def act(self, path: str, body: Any) -> str:
        """Presses a button; gives the sentence that comes back."""
        status, answer = await self.post(path, body)
        assert status == 200, answer
        return str(answer["said"])


@asynccontextmanager
async def watched(
    folder: Path,
    *,
    config: Config | None = None,
    loaded: LoadedConfig | None = None,
    platforms: Sequence[Platform] = (),
    guarded: bool = False,
    metrics: Metrics | None = None,
) -> AsyncIterator[Watched]:
    """`guarded`: behind both tokens, and the client is the owner."""
    store = await SqliteStore.open(folder / "state.db")
    script = Script()
    gateway = make_gateway(store, script, folder)
    loaded = loaded or LoadedConfig(config or Config(), None, folder)
    gateway.limits = Limits(loaded.config.limits, store.sessions)
    settings = await asyncio.to_thread(LiveConfig, loaded)
    context = DashboardContext(gateway, store.reports, store.access, settings, "A model.", platforms, metrics)
    tokens = {"token": OWNER, "read_token": READER} if guarded else {}
    headers = bearer(OWNER) if guarded else {}
    async with (
        serving(gateway, context=context, **tokens) as web,
        aiohttp.ClientSession(headers=headers) as http,
    ):
        yield Watched(script, store, gateway, web, http, context)
    await store.close()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def barriers(tab: Tab) -> list[str]:
    """What axe finds in the way of people with a keyboard, a screen reader or weak eyes, on the page that is open."""
    found = await Axe().run(tab.page)
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found.response["violations"]]


async def scrolls_sideways(tab: Tab) -> bool:
    wider: bool = await tab.page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
    return wider
