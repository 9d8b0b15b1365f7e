"""The real Hermes, as its own process, seen only through its standard streams and its port."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.support.warm import HERMES, Process, spawn

_WHERE = re.compile(r"http://127\.0\.0\.1:\d+")
_READY = "Ctrl-C stops Hermes"
"""The last of the lines for the person at the start."""

_KEYS = (
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "NOUS_API_KEY",
    "TELEGRAM_BOT_TOKEN",
    "DISCORD_BOT_TOKEN",
    "HERMES_CONFIG",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
)


def environment(home: Path, **extra: str) -> dict[str, str]:
    """The caller's environment without keys and with a state directory of its own."""
    clean = {key: value for key, value in os.environ.items() if key not in _KEYS}
    return {**clean, "HERMES_HOME": str(home), "PYTHONUNBUFFERED": "1", **extra}


class HermesProcess:
    """`hermes run` on a state directory and a configuration. `cold`: its first start imports everything itself."""

    def __init__(self, home: Path, config: dict[str, Any], *, cold: bool = False) -> None:
        config.setdefault("platforms", {}).setdefault("web", {}).setdefault("port", 0)
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.config_path = home / "hermes.yaml"
        self.config_path.write_text(yaml.safe_dump(config))
        self.output: list[str] = []
        self.url = ""
        self._spawn: Callable[..., Awaitable[Process]] = asyncio.create_subprocess_exec if cold else spawn
        self._process: Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._has_spoken = asyncio.Event()

    async def start(self) -> None:
        self._process = await self._spawn(
            *HERMES, "--config", str(self.config_path), "run",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=environment(self.home),
        )  # fmt: skip
        self._spawn = spawn
        self._reader = asyncio.create_task(self._read())
        await asyncio.wait_for(self._ready.wait(), 30)
        assert self.url, "Hermes ended before it was ready:\n" + "".join(self.output)

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Sends the signal and waits for the end; gives the exit code."""
        assert self._process and self._reader
        if self._process.returncode is None:
            self._process.send_signal(how)
        code = await asyncio.wait_for(self._process.wait(), 30)
        await self._reader
        return code

    def send(self, number: signal.Signals) -> None:
        assert self._process
        self._process.send_signal(number)

    def configure(self, config: dict[str, Any]) -> None:
        """Replace the file by a new one, as editors do."""
        new = self.config_path.with_suffix(".new")
        new.write_text(yaml.safe_dump(config))
        new.replace(self.config_path)

    async def logs(self, event: str, after: int = 0) -> dict[str, Any]:
        """Waits for the first such line behind so many others; the log must be in JSON."""
        async with asyncio.timeout(30):
            while True:
                self._has_spoken.clear()
                lines = [json.loads(line) for line in self.output[after:] if line.startswith("{")]
                if found := [line for line in lines if line["event"] == event]:
                    return dict(found[0])
                await self._has_spoken.wait()

    async def restart(self, how: signal.Signals = signal.SIGTERM) -> None:
        await self.stop(how)
        self.url = ""
        self._ready.clear()
        await self.start()

    async def _read(self) -> None:
        assert self._process and self._process.stdout
        async for raw in self._process.stdout:
            line = raw.decode(errors="replace")
            self.output.append(line)
            self._has_spoken.set()
            if not self.url and (found := _WHERE.search(line)):
                self.url = found[0]
            if _READY in line:
                self._ready.set()
        self._ready.set()


@asynccontextmanager
async def hermes(home: Path, config: dict[str, Any], *, cold: bool = False) -> AsyncIterator[HermesProcess]:
    process = HermesProcess(home, config, cold=cold)
    await process.start()
    try:
        yield process
    finally:
        await process.stop()


class WebClient:
    """A person at the web chat, without a browser."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self._url = url
        self._http = http
        self.conversation_id = ""
        self._after = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, chat_id: str) -> AsyncIterator[WebClient]:
        async with aiohttp.ClientSession() as http:
            client = cls(url, http)
            body = {"platform": "web", "chat_id": chat_id}
            async with http.post(f"{url}/api/conversations", json=body) as response:
                opened = await response.json()
            client.conversation_id, client._after = opened["id"], opened["after"]
            yield client

    async def say(self, text: str) -> list[dict[str, Any]]:
        """Sends a message and gives the events of its turn, the last one included."""
        message_id = await self.send(text)
        events: list[dict[str, Any]] = []
        async for event in self.events():
            if event["type"] == "TurnStarted" and event["message_id"] != message_id:
                events.clear()
            events.append(event)
            if event["type"] in ("TurnDone", "TurnFailed"):
                return events
        raise AssertionError(f"the stream ended early: {events}")

    async def send(self, text: str) -> str:
        url = f"{self._url}/api/conversations/{self.conversation_id}/messages"
        async with self._http.post(url, json={"text": text}) as response:
            assert response.status == 202, await response.text()
            return str((await response.json())["message_id"])

    async def stop(self) -> bool:
        async with self._http.post(
            f"{self._url}/api/conversations/{self.conversation_id}/stop", json={}
        ) as response:
            return bool((await response.json())["stopped"])

    async def decide(self, approval_id: str, choice: str) -> str:
        """Answers an `ApprovalAsked`; gives the sentence about it."""
        url = f"{self._url}/api/conversations/{self.conversation_id}/approvals/{approval_id}"
        async with self._http.post(url, json={"choice": choice}) as response:
            assert response.status == 200, await response.text()
            return str((await response.json())["said"])

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        url = f"{self._url}/api/conversations/{self.conversation_id}/events"
        async with self._http.get(url, params={"after": self._after}) as response:
            assert response.status == 200, await response.text()
            async for raw in response.content:
                line = raw.decode().rstrip()
                if line.startswith("id:"):
                    self._after = int(line[3:])
                elif line.startswith("data:"):
                    yield json.loads(line[5:])

    async def transcript(self) -> list[dict[str, Any]]:
        url = f"{self._url}/api/conversations/{self.conversation_id}/messages"
        async with self._http.get(url) as response:
            return list(await response.json())
