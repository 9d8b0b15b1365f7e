"""HTTP client of the Bot API. The transport inserts the token last, so that no library can log it."""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
from telegram import Bot
from telegram.request import HTTPXRequest

from gateway.platforms.telegram.errors import TooManyRequests
from gateway.platforms.telegram.updates import readable_update

# Below WARNING these libraries log every call with its text, even if an operator asks for all logs.
for _library in ("httpx", "httpcore", "telegram"):
    logging.getLogger(_library).setLevel(logging.WARNING)

_PLACEHOLDER = "TOKEN"
"""Text that python-telegram-bot and httpx see in place of the token."""

_CONNECTIONS = 256
_KEEPALIVE_CONNECTIONS = 8
_CONNECT_SECONDS, _READ_SECONDS, _UPLOAD_SECONDS = 10.0, 20.0, 120.0
_POLL_READ_SECONDS = 10.0
"""Seconds beyond the timeout of a poll."""


class BotApi:
    """Client of one bot at one Bot API server."""

    def __init__(self, token: str, base_url: str, *, read_seconds: float = _READ_SECONDS) -> None:
        """`read_seconds`: how long a call waits for its response."""
        self._token = quote(token.strip(), safe=":")
        self._root = base_url.rstrip("/")
        self._calls = self._request(read_seconds)
        self.bot = self._bot(self._calls)
        """Makes every call except polls; works while no messages are received."""

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Bot]:
        """Open a bot that polls over new connections, so that a stuck one is not used again."""
        polls = self._request(_POLL_READ_SECONDS, _PollRequest)
        try:
            yield self._bot(polls)
        finally:
            await polls.shutdown()

    async def close(self) -> None:
        await self._calls.shutdown()

    def _bot(self, polls: HTTPXRequest) -> Bot:
        return Bot(
            _PLACEHOLDER,
            base_url=f"{self._root}/bot",
            base_file_url=f"{self._root}/file/bot",
            request=self._calls,
            get_updates_request=polls,
        )

    def _request(self, read_seconds: float, kind: type[_Request] | None = None) -> HTTPXRequest:
        # httpx reads the proxy settings only for a transport that it makes itself.
        wire = httpx.AsyncHTTPTransport(
            verify=_certificates(),
            # Each request scans the idle connections, so few are kept after a burst.
            limits=httpx.Limits(
                max_connections=_CONNECTIONS, max_keepalive_connections=_KEEPALIVE_CONNECTIONS
            ),
            proxy=_proxy_for(self._root),
        )
        return (kind or _Request)(
            self._token,
            read_timeout=read_seconds,
            write_timeout=_READ_SECONDS,
            connect_timeout=_CONNECT_SECONDS,
            pool_timeout=_CONNECT_SECONDS,
            media_write_timeout=_UPLOAD_SECONDS,
            httpx_kwargs={"transport": _WithToken(wire, self._token)},
        )


class _WithToken(httpx.AsyncBaseTransport):
    """Transport that replaces the placeholder with the token."""

    def __init__(self, wire: httpx.AsyncBaseTransport, token: str) -> None:
        self._wire = wire
        self._token = token

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.replace(
            f"/bot{_PLACEHOLDER}/".encode(), f"/bot{self._token}/".encode(), 1
        )
        signed = httpx.Request(
            request.method,
            request.url.copy_with(raw_path=path),
            headers=request.headers,
            stream=request.stream,
            extensions=request.extensions,
        )
        return await self._wire.handle_async_request(signed)

    async def aclose(self) -> None:
        await self._wire.aclose()


class _Request(HTTPXRequest):
    def __init__(self, token: str, **settings: Any) -> None:
        super().__init__(**settings)
        self._secret = token.encode()

    async def do_request(self, url: str, method: str, *args: Any, **timeouts: Any) -> tuple[int, bytes]:
        status, payload = await super().do_request(url, method, *args, **timeouts)
        if method == "POST":
            # A proxy's error page may repeat the address, and the library would log it.
            payload = payload.replace(self._secret, _PLACEHOLDER.encode())
        if status == httpx.codes.TOO_MANY_REQUESTS:
            # The library ignores a delay of 0 seconds, and its own class emits a warning.
            raise TooManyRequests(_retry_after(payload))
        return status, payload


class _PollRequest(_Request):
    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        answer = HTTPXRequest.parse_json_payload(payload)
        if answer.get("ok"):
            answer["result"] = [readable_update(update) for update in answer["result"]]
        return answer


def _retry_after(payload: bytes) -> float:
    try:
        return float(json.loads(payload)["parameters"]["retry_after"])
    except (ValueError, KeyError, TypeError):
        return 1.0


@cache
def _certificates() -> ssl.SSLContext:
    """Load the certificates once: loading is slow, and all connections use the same."""
    return httpx.create_ssl_context()


def _proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for this address."""
    parts, proxies = urlsplit(url), getproxies()
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    return proxies.get(parts.scheme) or proxies.get("all")
