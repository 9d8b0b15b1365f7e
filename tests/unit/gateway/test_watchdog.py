"""The thread that answers in place of a blocked event loop."""

from __future__ import annotations

import asyncio
import socket

from gateway.watchdog import Watchdog

_MANY = 100


async def test_a_client_that_trickles() -> None:
    """The head of a request has one deadline, so a slow client holds up neither the thread nor the next client."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        port = listening.getsockname()[1]
        # With 0 seconds every loop counts as blocked.
        async with Watchdog(blocked_seconds=0).watching([listening.dup()]):
            _, to_slow = await asyncio.open_connection("127.0.0.1", port)
            next_one, to_next = await asyncio.open_connection("127.0.0.1", port)
            to_next.write(b"GET /healthz HTTP/1.1\r\n\r\n")
            answer = asyncio.create_task(next_one.readline())
            sent = 0
            while sent < _MANY and not answer.done():
                to_slow.write(b"x")
                sent += 1
                await asyncio.wait([answer], timeout=0.1)
            to_slow.close()
            assert sent < _MANY
            assert (await answer).startswith(b"HTTP/1.1 503 ")
            to_next.close()
