"""Harness: the web chat on a real socket, with a scripted model."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from agent.llm import ChatRequest
from agent.testing import ScriptedLLM, Step
from agent.tool import ToolContext, tool
from agent.tools.read_file import read_file
from agent.tools.send_file import send_file
from gateway.core.gateway import Gateway
from gateway.core.turns import Busy
from gateway.platforms.web.platform import WebPlatform
from gateway.store.sqlite.store import SqliteStore
from tests.support.agents import make_agent
from tests.support.gateways import make_gateway, serving
from tests.support.sandboxed import TERMINAL


class Script:
    """The next answers of the model; "Yes." without a script."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()
        self.llm = ScriptedLLM([self._next] * 100)

    def will(self, *steps: Step) -> None:
        self._steps.extend(steps)

    def _next(self, request: ChatRequest) -> Step:
        return self._steps.popleft() if self._steps else "Yes."


@tool()
async def look_up(ctx: ToolContext, word: str) -> str:
    """Looks a word up."""
    return f"{word}: a word of {len(word)} letters"


@dataclass
class WebHarness:
    """A running web chat and an HTTP client."""

    script: Script
    store: SqliteStore
    gateway: Gateway
    web: WebPlatform
    http: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return self.web.where

    async def get(self, path: str, **options: Any) -> tuple[int, Any]:
        async with self.http.get(self.url + path, **options) as response:
            return response.status, await _content(response)

    async def post(self, path: str, body: Any, **options: Any) -> tuple[int, Any]:
        async with self.http.post(self.url + path, json=body, **options) as response:
            return response.status, await _content(response)

    async def open(self, chat_id: str = "desk", platform: str = "web") -> Chat:
        status, opened = await self.post("/api/conversations", {"platform": platform, "chat_id": chat_id})
        assert status == 200, opened
        return Chat(self, opened["id"], opened["after"])


@dataclass
class Chat:
    """One conversation, seen through the API."""

    harness: WebHarness
    id: str
    after: int

    async def send(self, text: str) -> str:
        status, sent = await self.harness.post(f"/api/conversations/{self.id}/messages", {"text": text})
        assert status == 202, sent
        return str(sent["message_id"])

    async def ask(self, text: str) -> list[dict[str, Any]]:
        """Send a message and return the events of its turn."""
        async with self.watch() as events:
            message_id = await self.send(text)
            while True:  # an earlier turn may be replayed first
                turn = await events.until("TurnDone", "TurnFailed")
                if any(event.get("message_id") == message_id for event in turn):
                    return turn

    @asynccontextmanager
    async def watch(self, path: str = "", **options: Any) -> AsyncIterator[Events]:
        path = path or f"/api/conversations/{self.id}/events?after={self.after}"
        async with self.harness.http.get(self.harness.url + path, **options) as response:
            assert response.status == 200, await response.text()
            yield Events(response)

    async def stop(self) -> bool:
        _, answer = await self.harness.post(f"/api/conversations/{self.id}/stop", {})
        return bool(answer["stopped"])

    async def decide(self, approval_id: str, choice: str) -> str:
        path = f"/api/conversations/{self.id}/approvals/{approval_id}"
        status, answer = await self.harness.post(path, {"choice": choice})
        assert status == 200, answer
        return str(answer["said"])

    async def transcript(self) -> list[dict[str, Any]]:
        _, messages = await self.harness.get(f"/api/conversations/{self.id}/messages")
        return list(messages)


@dataclass
class Events:
    """An open event stream."""

    response: aiohttp.ClientResponse
    numbers: list[int] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)

    async def next(self) -> dict[str, Any]:
        async for raw in self.response.content:
            line = raw.decode().rstrip("\n")
            if line.startswith("id: "):
                self.numbers.append(int(line[4:]))
            elif line.startswith(":"):
                self.comments.append(line)
            elif line.startswith("data: "):
                return dict(json.loads(line[6:]))
        raise EOFError("the stream has ended")

    async def until(self, *types: str) -> list[dict[str, Any]]:
        """Return all events up to the first of these types (API) or operations (page)."""
        events = [await self.next()]
        while events[-1].get("type", events[-1].get("op")) not in types:
            events.append(await self.next())
        return events


def web_gateway(store: SqliteStore, script: Script, folder: Path, **config: Any) -> Gateway:
    """Make the gateway of a web chat; `config`: sections of the configuration."""
    agent = make_agent(script.llm, store.sessions, [look_up, read_file, send_file, TERMINAL])
    return make_gateway(agent, store, folder, config=config)


@asynccontextmanager
async def web_harness(
    folder: Path, store: SqliteStore | None = None, *, busy: Busy = "queue", **options: Any
) -> AsyncIterator[WebHarness]:
    script, store = Script(), store or await SqliteStore.open(folder / "web.db")
    gateway = web_gateway(store, script, folder, gateway={"busy": busy})
    async with serving(gateway, **options) as web, aiohttp.ClientSession() as http:
        yield WebHarness(script, store, gateway, web, http)
        await gateway.close()
    await store.close()


async def _content(response: aiohttp.ClientResponse) -> Any:
    return await response.json() if response.content_type == "application/json" else await response.text()
