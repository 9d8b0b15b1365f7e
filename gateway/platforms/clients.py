"""Limits on connections and event streams, so that one client cannot starve the bots and the other clients.

Behind a reverse proxy all people share one address, so a single address may hold half of the connections.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from gateway import open_files as descriptors

log = structlog.get_logger(__name__)

REQUEST_SECONDS = 30.0
"""Time for the head of a request to arrive, then for its body, then for the client to read some of the response."""
_MAX_CONNECTIONS = 1_000
_MAX_BACKLOG = 100
_MAX_STREAMS = 200
_STREAMS_PER_ADDRESS = 60

_TOO_MANY_STREAMS = "Too many pages of Hermes are open. Close some of them, then reload this one."
_WARNING_INTERVAL = 600.0


def client_key(address: str) -> str:
    """Return what identifies a client: its IPv4 address, or the /64 of its IPv6 address."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(known, ipaddress.IPv4Address):
        return address
    return str(known.ipv4_mapped or ipaddress.IPv6Address(int(known) >> 64 << 64))


class ConnectionLimit:
    """Protocol factory that refuses connections above the limits."""

    def __init__(
        self, make: Callable[[], asyncio.Protocol], *, unread_seconds: float, share: int = 2
    ) -> None:
        """Use at most one of `share` file descriptors. On Linux, a client that reads nothing for `unread_seconds` is
        disconnected."""
        self._make_protocol = make
        self._unread_ms = int(unread_seconds * 1_000)
        self._open: dict[str, list[asyncio.Transport]] = {}
        # The other descriptors are for the bots, the model, the store and the processes of tools.
        self._limit = min(_MAX_CONNECTIONS, descriptors.limit() // share)
        self._per_address = self._limit // 2
        self.backlog = max(1, min(_MAX_BACKLOG, self._limit // 4))
        """Connections that the event loop accepts in one step, before it can refuse any."""
        self._warned_at = float("-inf")

    def __call__(self) -> asyncio.Protocol:
        return _PendingConnection(self)

    def accept(self, transport: asyncio.Transport) -> None:
        peer = transport.get_extra_info("peername")
        address = client_key(str(peer[0])) if peer else ""
        self._open = {
            known: still
            for known, transports in self._open.items()
            if (still := [each for each in transports if not each.is_closing()])
        }
        theirs = self._open.setdefault(address, [])
        if len(theirs) >= self._per_address or sum(map(len, self._open.values())) >= self._limit:
            self._refuse(transport, len(theirs))
            return
        theirs.append(transport)
        if sys.platform == "linux":
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, self._unread_ms)
        protocol = self._make_protocol()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    def _refuse(self, transport: asyncio.Transport, theirs: int) -> None:
        transport.abort()
        now = asyncio.get_running_loop().time()
        if now - self._warned_at > _WARNING_INTERVAL:
            self._warned_at = now
            log.warning("web.too_many_connections", of_this_client=theirs, most=self._limit)


class _PendingConnection(asyncio.Protocol):
    """Placeholder protocol until the connection is accepted or refused."""

    def __init__(self, connections: ConnectionLimit) -> None:
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connections.accept(cast(asyncio.Transport, transport))


async def listen(
    app: web.Application,
    host: str,
    port: int,
    *,
    request_seconds: float = REQUEST_SECONDS,
    shutdown_seconds: float,
    share: int = 2,
) -> tuple[web.AppRunner, asyncio.Server]:
    """Serve `app` within the limits. Raises OSError if it cannot listen."""
    # No access log: it would record conversation ids, and a token in the address.
    # `keepalive_timeout` also closes a connection on which no request head arrives.
    runner = web.AppRunner(
        app, access_log=None, shutdown_timeout=shutdown_seconds, keepalive_timeout=request_seconds
    )
    await runner.setup()
    assert runner.server
    connections = ConnectionLimit(runner.server, unread_seconds=request_seconds, share=share)
    try:
        server = await asyncio.get_running_loop().create_server(
            connections, host, port, backlog=connections.backlog
        )
    except OSError:
        await runner.cleanup()
        raise
    return runner, server


class StreamLimit:
    """Limits open event streams, in total and per client."""

    def __init__(self) -> None:
        self._by_address: Counter[str] = Counter()

    @contextmanager
    def slot(self, request: web.Request) -> Iterator[None]:
        address = client_key(request.remote or "")
        if self._by_address[address] >= _STREAMS_PER_ADDRESS or self._by_address.total() >= _MAX_STREAMS:
            raise web.HTTPServiceUnavailable(text=_TOO_MANY_STREAMS)
        self._by_address[address] += 1
        try:
            yield
        finally:
            self._by_address[address] -= 1
            self._by_address += Counter()  # drops clients with no stream


def read_body_first(seconds: float) -> Middleware:
    """Return a middleware that reads the body before the handler runs, so that a slow client holds no handler."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.can_read_body:
            await read_body(request, seconds)
        return await handler(request)

    return middleware


async def read_body(request: web.Request, seconds: float) -> bytes:
    """Read the whole body. Raises HTTPRequestTimeout."""
    try:
        async with asyncio.timeout(seconds):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text="The request arrived too slowly. Send it again.") from None
