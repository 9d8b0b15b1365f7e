"""Limits for what clients hold open, so that one of them cannot use up what the bots and all others need.

Behind a reverse proxy all people have one address, so a single address may hold a good part of the whole.
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
"""Within this time the head of a request has to arrive, then its body; then some of the answer has to be taken."""
_MOST_CONNECTIONS = 1_000
_MOST_AT_ONCE = 100
_MOST_STREAMS = 200
_STREAMS_PER_ADDRESS = 60

_TOO_MANY_STREAMS = "Too many pages of Hermes are open; close some of them, then reload this one."
_SAID_AGAIN_SECONDS = 600.0


def client_of(address: str) -> str:
    """What counts as one client: an IPv4 address, or the /64 of an IPv6 address, which one client has for itself."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(known, ipaddress.IPv4Address):
        return address
    return str(known.ipv4_mapped or ipaddress.IPv6Address(int(known) >> 64 << 64))


class Connections:
    """Makes the protocol of each connection, or closes the connection at once."""

    def __init__(
        self, make: Callable[[], asyncio.Protocol], *, unread_seconds: float, share: int = 2
    ) -> None:
        """At most one of `share` descriptors is for these connections. A client that takes nothing of its answer for
        `unread_seconds` is disconnected, where the system can do that (Linux)."""
        self._make = make
        self._unread_ms = int(unread_seconds * 1_000)
        self._open: dict[str, list[asyncio.Transport]] = {}
        # The other descriptors stay for the bots, the model, the store and what tools start.
        self._most = min(_MOST_CONNECTIONS, descriptors.limit() // share)
        self._per_address = self._most // 2
        self.at_once = max(1, min(_MOST_AT_ONCE, self._most // 4))
        """Connections that the loop takes in one go, before any of them can be refused."""
        self._said_at = float("-inf")

    def __call__(self) -> asyncio.Protocol:
        return _Door(self)

    def came(self, transport: asyncio.Transport) -> None:
        peer = transport.get_extra_info("peername")
        address = client_of(str(peer[0])) if peer else ""
        self._open = {
            known: still
            for known, transports in self._open.items()
            if (still := [each for each in transports if not each.is_closing()])
        }
        theirs = self._open.setdefault(address, [])
        if len(theirs) >= self._per_address or sum(map(len, self._open.values())) >= self._most:
            self._refuse(transport, len(theirs))
            return
        theirs.append(transport)
        if sys.platform == "linux":
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, self._unread_ms)
        protocol = self._make()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    def _refuse(self, transport: asyncio.Transport, theirs: int) -> None:
        transport.abort()
        now = asyncio.get_running_loop().time()
        if now - self._said_at > _SAID_AGAIN_SECONDS:
            self._said_at = now
            log.warning("web.too_many_connections", of_this_client=theirs, most=self._most)


class _Door(asyncio.Protocol):
    """Stands in for the protocol until it is decided whether there is one."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connections.came(cast(asyncio.Transport, transport))


async def listen(
    app: web.Application,
    host: str,
    port: int,
    *,
    request_seconds: float = REQUEST_SECONDS,
    shutdown_seconds: float,
    share: int = 2,
) -> tuple[web.AppRunner, asyncio.Server]:
    """Serve `app` within the limits. Raises OSError where it cannot listen."""
    # No access log: it would write down every conversation id, and a token given in the address.
    # `keepalive_timeout` also ends a connection on which the head of a request does not arrive.
    runner = web.AppRunner(
        app, access_log=None, shutdown_timeout=shutdown_seconds, keepalive_timeout=request_seconds
    )
    await runner.setup()
    assert runner.server
    connections = Connections(runner.server, unread_seconds=request_seconds, share=share)
    try:
        server = await asyncio.get_running_loop().create_server(
            connections, host, port, backlog=connections.at_once
        )
    except OSError:
        await runner.cleanup()
        raise
    return runner, server


class StreamLimit:
    """Counts open event streams."""

    def __init__(self) -> None:
        self._by_address: Counter[str] = Counter()

    @contextmanager
    def one_more(self, request: web.Request) -> Iterator[None]:
        address = client_of(request.remote or "")
        if self._by_address[address] >= _STREAMS_PER_ADDRESS or self._by_address.total() >= _MOST_STREAMS:
            raise web.HTTPServiceUnavailable(text=_TOO_MANY_STREAMS)
        self._by_address[address] += 1
        try:
            yield
        finally:
            self._by_address[address] -= 1
            self._by_address += Counter()  # Forgets those who have none.


def body_in_time(seconds: float) -> Middleware:
    """Reads the body first: a client that never sends the rest must not hold a handler."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.can_read_body:
            await read_in_time(request, seconds)
        return await handler(request)

    return middleware


async def read_in_time(request: web.Request, seconds: float) -> bytes:
    try:
        async with asyncio.timeout(seconds):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text="The request came too slowly; send it again.") from None
