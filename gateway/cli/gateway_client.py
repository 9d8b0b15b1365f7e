"""Finds the gateway that runs on this state directory, asks for its status and chats with it over its web API."""

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
from gateway.cli.chat_backend import PLATFORM, EventDeduplicator, GatewayGone, LocalChat, Sent
from gateway.config.loader import LoadedConfig
from gateway.config.schema_platforms import local_url
from gateway.process_lock import read_address

_STATUS_SECONDS = 5.0
_MAX_LINE_BYTES = 2**24
"""Limit for one event; the whole result of a tool fits."""

_RECONNECT_SECONDS = 0.2
"""Delay before a reconnect, so that a server that disconnects at once is not called in a tight loop."""


class TokenRefused(HermesError):
    """The running Hermes refuses this `platforms.web.token`: hermes.yaml has changed since. Restart Hermes."""


class RequestRefused(HermesError):
    # No docstring: the running Hermes sends the sentence.
    pass


def gateway_url(loaded: LoadedConfig) -> str | None:
    """Return the address that the gateway wrote, or the configured one; None without a web server or a known port."""
    if noted := read_address(loaded.home):
        return noted
    web = loaded.config.platforms.web
    return local_url(web.host, web.port) if web.enabled and web.port != 0 else None


def _authorization(loaded: LoadedConfig) -> dict[str, str]:
    token = loaded.config.platforms.web.token
    return {"Authorization": f"Bearer {token.get_secret_value()}"} if token else {}


async def ask_status(loaded: LoadedConfig, url: str) -> dict[str, Any] | None:
    """Ask the gateway of this state directory for its status; None if it does not answer. Raises TokenRefused."""
    timeout = aiohttp.ClientTimeout(total=_STATUS_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(headers=_authorization(loaded), timeout=timeout) as http,
            http.get(f"{url}/api/status") as response,
        ):
            if response.status == 401:
                raise TokenRefused
            status = await response.json() if response.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None
    is_ours = isinstance(status, dict) and status.get("database") == loaded.store_name
    return status if is_ours else None


class RemoteChat:
    """The agent of the gateway that holds the lock on the state directory. Has the methods of LocalChat."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.greeting = f"Connected to Hermes at {url}; /status shows its model."
        self._http = http

    @classmethod
    @asynccontextmanager
    async def connect(cls, loaded: LoadedConfig, url: str) -> AsyncIterator[RemoteChat]:
        # An answer may take any time, but a gateway on this machine accepts a connection at once.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with aiohttp.ClientSession(
            url, headers=_authorization(loaded), timeout=timeout, read_bufsize=_MAX_LINE_BYTES
        ) as http:
            yield cls(http, url)

    async def open(self, chat: str) -> None:
        """Open the chat. All methods raise GatewayGone if Hermes does not answer."""
        opened = await self._post("/api/conversations", {"platform": PLATFORM, "chat_id": chat})
        self.conversation_id = str(opened["id"])
        self._conversation = f"/api/conversations/{self.conversation_id}"
        self._deduplicator = EventDeduplicator(after=opened["after"])

    async def send(self, text: str) -> Sent:
        sent = await self._post(f"{self._conversation}/messages", {"text": text})
        return Sent(str(sent["message_id"]), bool(sent["overtook"]))

    async def stop(self) -> bool:
        return bool((await self._post(f"{self._conversation}/stop", {}))["stopped"])

    async def decide(self, approval_id: str, choice: Choice) -> str:
        said = await self._post(f"{self._conversation}/approvals/{approval_id}", {"choice": choice})
        return str(said["said"])

    async def events(self) -> AsyncGenerator[TurnEvent, None]:
        while True:  # reconnect; the server then sends the missed events
            async with aclosing(self._stream()) as stream:
                async for number, event in stream:
                    if unseen := self._deduplicator.take(number, event):
                        yield unseen
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _stream(self) -> AsyncGenerator[tuple[int, TurnEvent], None]:
        number = 0
        try:
            async with self._http.get(
                f"{self._conversation}/events", params={"after": self._deduplicator.last}
            ) as response:
                await _raise_for_status(response)
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
                await _raise_for_status(response)
                answer: dict[str, Any] = await response.json()
                return answer
        except aiohttp.ClientError as error:
            raise GatewayGone from error


async def _raise_for_status(response: aiohttp.ClientResponse) -> None:
    if response.status < 400:
        return
    try:
        sentence = str((await response.json())["error"])
    except (aiohttp.ContentTypeError, ValueError, KeyError, TypeError):
        raise GatewayGone(f"(Another program answers there: {response.status} {response.reason})") from None
    if response.status == 401:
        raise TokenRefused
    raise RequestRefused(sentence)


ChatBackend = LocalChat | RemoteChat
