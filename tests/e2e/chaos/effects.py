"""A tool's effect outside Hermes: a durable log of every call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.e2e.chaos.model import TOOL
from tests.support.foreign_plugins import write_plugin

PLUGIN = "notebook"

_CODE = """
import aiohttp
from agent.tool import ToolContext, tool


@tool(effects=True)
async def {tool}(ctx: ToolContext, key: str) -> str:
    '''Keeps a note.

    key: What to note.
    '''
    async with aiohttp.ClientSession() as http, http.post("{url}", json={{"key": key}}) as answer:
        return await answer.text()


def register(ctx):
    ctx.register_tool({tool})
"""


class Notebook:
    def __init__(self, reach: Callable[[str, Any], bool]) -> None:
        self.notes: list[str] = []
        self._reach = reach

    @classmethod
    @asynccontextmanager
    async def open(cls, home: Path, reach: Callable[[str, Any], bool]) -> AsyncIterator[Notebook]:
        """With the plugin that writes into it, in this state directory."""
        notebook = cls(reach)
        app = web.Application()
        app.router.add_post("/", notebook._note)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        write_plugin(home, _CODE.format(tool=TOOL, url=url), PLUGIN)
        try:
            yield notebook
        finally:
            await runner.cleanup()

    async def _note(self, request: web.Request) -> web.Response:
        key = (await request.json())["key"]
        if not self._reach("tool", key):
            self.notes.append(key)
        return web.Response(text=f"kept {key}")
