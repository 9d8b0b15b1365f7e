"""A web server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web


class Site:
    """A web server on loopback that counts its visitors."""

    def __init__(self) -> None:
        self.visits: list[str] = []
        self.headers: list[dict[str, str]] = []
        self._answers: dict[str, dict[str, Any]] = {}
        self.release = asyncio.Event()
        self.port = 0

    def serve(self, path: str, **response: Any) -> None:
        """From now on, a request for this path gets this response."""
        self._answers[path] = response

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.visits.append(request.path)
        self.headers.append(dict(request.headers))
        if request.path == "/hang":
            await self.release.wait()
        return web.Response(**self._answers.get(request.path, {"text": f"you are at {request.path}"}))

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


@asynccontextmanager
async def open_site() -> AsyncIterator[Site]:
    site = Site()
    runner = web.ServerRunner(web.Server(site.answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site.port = runner.addresses[0][1]
    try:
        yield site
    finally:
        site.release.set()
        await runner.cleanup()
