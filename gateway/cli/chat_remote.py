"""The agent of a Hermes that is already running, over its web API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import aiohttp

from agent.errors import HermesError
from agent.events import TurnEvent, event_from_dict
from agent.tool import Choice
from gateway.cli.chat_backend import PLATFORM, GatewayGone, Sent
from gateway.cli.gateway_client import TokenRefused
from gateway.core.events import EventDeduplicator

_LONGEST_LINE = 2**24
"""Bytes of one event; a tool's whole result fits."""

_BREATH = 0.2
"""Seconds before connecting again, so that a server that hangs up at once is not asked in a tight loop."""


class RequestRefused(HermesError):
    # Without a docstring: the running Hermes has its own sentence for it.
    pass


class RemoteChat:
    """Talks to the gateway that holds the state directory."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.greeting = f"Connected to Hermes at {url}; /status names its model."
        self._http = http

    @classmethod
    @asynccontextmanager
    async def connect(cls, url: str, token: str | None) -> AsyncIterator[RemoteChat]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # An answer may take any time; a gateway on this machine either accepts a connection or is not there.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with aiohttp.ClientSession(
            url, headers=headers, timeout=timeout, read_bufsize=_LONGEST_LINE
        ) as http:
            yield cls(http, url)

    async def open(self, chat: str) -> None:
        """Raises GatewayGone where no Hermes answers."""
        opened = await self._post("/api/conversations", {"platform": PLATFORM, "chat_id": chat})
        self.conversation_id = str(opened["id"])
        self._conversation = f"/api/conversations/{self.conversation_id}"
        self._unseen = EventDeduplicator(after=opened["after"])

    async def send(self, text: str) -> Sent:
        sent = await self._post(f"{self._conversation}/messages", {"text": text})
        return Sent(str(sent["message_id"]), bool(sent["overtook"]))

    async def stop(self) -> bool:
        return bool((await self._post(f"{self._conversation}/stop", {}))["stopped"])

    async def decide(self, approval_id: str, choice: Choice) -> str:
        said = await self._post(f"{self._conversation}/approvals/{approval_id}", {"choice": choice})
        return str(said["said"])

    async def events(self) -> AsyncGenerator[TurnEvent, None]:
        while True:  # a lost connection is made again and brings what was missed
            async with aclosing(self._stream()) as stream:
                async for number, event in stream:
                    if unseen := self._unseen.take(number, event):
                        yield unseen
            await asyncio.sleep(_BREATH)

    async def _stream(self) -> AsyncGenerator[tuple[int, TurnEvent], None]:
        number = 0
        try:
            async with self._http.get(
                f"{self._conversation}/events", params={"after": self._unseen.last}
            ) as response:
                await _refuse_errors(response)
                async for raw in response.content:
                    field, _, value = raw.decode().rstrip("\r\n").partition(": ")
                    if field == "id":
                        number = int(value)
                    elif field == "data":
                        yield number, event_from_dict(json.loads(value))
        except aiohttp.ClientConnectorError as error:
            raise GatewayGone from error
        except aiohttp.ClientError:
            return

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            async with self._http.post(path, json=body) as response:
                await _refuse_errors(response)
                answer: dict[str, Any] = await response.json()
                return answer
        except aiohttp.ClientError as error:
            raise GatewayGone from error


async def _refuse_errors(response: aiohttp.ClientResponse) -> None:
    if response.status < 400:
        return
    try:
        sentence = str((await response.json())["error"])
    except (aiohttp.ContentTypeError, ValueError, KeyError, TypeError):
        raise GatewayGone(f"(Something else answers there: {response.status} {response.reason})") from None
    if response.status == 401:
        raise TokenRefused
    raise RequestRefused(sentence)
