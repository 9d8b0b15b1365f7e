"""Clients that hold connections and streams open, or never finish a request."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.platforms.clients import client_key, listen
from gateway.platforms.web.sse import EventStreams, frame
from tests.support.web_harness import WebHarness, web_harness

POST = (
    "POST /api/conversations HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    "Content-Length: 50\r\n\r\n{{"
)


@pytest.mark.parametrize("head", ["", "GET / HTTP/1.1\r\nHost: {host}\r\nX-Long: "])
async def test_a_head_that_never_ends(tmp_path: Path, head: str) -> None:
    """The connection is closed, whether or not the request has begun."""
    async with web_harness(tmp_path, request_seconds=0.3) as harness, _connected(harness) as (reader, writer):
        writer.write(head.format(host=urlsplit(harness.url).netloc).encode())
        async with asyncio.timeout(30):
            assert await reader.read() == b""


async def test_a_body_that_never_comes(tmp_path: Path) -> None:
    """The client is told, and no handler waits for the rest."""
    async with web_harness(tmp_path, request_seconds=0.3) as harness, _connected(harness) as (reader, writer):
        writer.write(POST.format(host=urlsplit(harness.url).netloc).encode())
        async with asyncio.timeout(30):
            assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")


async def test_a_body_of_a_stranger_is_not_read(tmp_path: Path) -> None:
    """Without the token the answer comes before the body does, so strangers cannot have bodies kept in memory."""
    async with web_harness(tmp_path, token="a-token") as harness, _connected(harness) as (reader, writer):
        writer.write(POST.format(host=urlsplit(harness.url).netloc).encode())
        async with asyncio.timeout(20):
            assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    ("length", "status"),
    [("Content-Length: 50", 408), ("Content-Length: 10001", 413), ("Transfer-Encoding: chunked", 413)],
)
async def test_a_form_that_never_ends(tmp_path: Path, length: str, status: int) -> None:
    """The form for the token is open to strangers: it has a deadline, and what is too long is not kept."""
    seconds = 0.3 if status == 408 else 60.0
    async with (
        web_harness(tmp_path, token="a-token", request_seconds=seconds) as harness,
        _connected(harness) as (reader, writer),
    ):
        head = f"POST /sign-in HTTP/1.1\r\nHost: {urlsplit(harness.url).netloc}\r\n{length}\r\n"
        writer.write(f"{head}Content-Type: application/x-www-form-urlencoded\r\n\r\n".encode())
        if "chunked" in length:
            writer.write(b"2711\r\n" + b"x" * 10_001)
        async with asyncio.timeout(20):
            assert (await reader.readline()).startswith(f"HTTP/1.1 {status} ".encode())


async def test_too_many_event_streams_of_one_client(tmp_path: Path) -> None:
    """The one too many is refused with a sentence; when a page is closed, there is room for another."""
    async with web_harness(tmp_path) as harness:
        chat = await harness.open()
        events = f"{harness.url}/api/conversations/{chat.id}/events"
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
            async with AsyncExitStack() as pages:
                last = await pages.enter_async_context(http.get(events))
                while last.status == 200:
                    await last.content.readline()
                    last = await pages.enter_async_context(http.get(events))
                assert last.status == 503
                assert "Close some" in await last.text()
            await chat.send("Hello.")  # The server notices the closed pages when it next writes to them.
            async with asyncio.timeout(30):
                while True:
                    async with http.get(events) as again:
                        if again.status == 200:
                            break


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("2001:db8:1:2:3::4", "2001:db8:1:2:ffff::1", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("", "", True),
    ],
)
def test_addresses_of_one_client(one: str, other: str, is_same: bool) -> None:
    """A client with IPv6 has a whole /64 for itself, so the limits count the /64."""
    assert (client_key(one) == client_key(other)) is is_same


async def test_a_stream_that_nobody_reads() -> None:
    """It ends when nothing of it was taken for a while, whatever else there would be to send."""
    streams = EventStreams(15.0, write_seconds=0.3)

    async def frames() -> AsyncGenerator[bytes, None]:
        while True:
            yield frame("x" * 100_000)

    await _ends_unread(lambda request: streams.send(request, frames()), request_seconds=60.0)


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not end such connections")
async def test_an_answer_that_nobody_reads() -> None:
    """The connection is closed, so that such clients do not use up memory and connections."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionResetError):
            await response.write(b"x" * 30_000_000)
        return response

    await _ends_unread(answer, request_seconds=0.3)


async def _ends_unread(handler: Handler, *, request_seconds: float) -> None:
    """A client asks and never reads; waits until the handler ends all the same."""
    ended = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        finally:
            ended.set()

    app = web.Application()
    app.router.add_get("/", handle)
    runner, server = await listen(app, "127.0.0.1", 0, request_seconds=request_seconds, shutdown_seconds=1.0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(20):
            await ended.wait()
    finally:
        writer.close()
        server.close()
        await runner.cleanup()


@asynccontextmanager
async def _connected(harness: WebHarness) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    where = urlsplit(harness.url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    try:
        yield reader, writer
    finally:
        writer.close()
