"""The thread that answers in place of a blocked event loop, and notifications to the service manager."""

from __future__ import annotations

import asyncio
import resource
import socket
from pathlib import Path

import pytest

from gateway.watchdog import ServiceManager, Watchdog

_MANY = 100


async def test_a_client_that_trickles() -> None:
    """The head of a request has one deadline, so a slow client holds up neither the thread nor the next client."""
    with socket.create_server(("127.0.0.1", 0)) as listening, ServiceManager() as manager:
        listening.setblocking(False)
        port = listening.getsockname()[1]
        # With 0 seconds every loop counts as blocked.
        async with Watchdog(manager, blocked_seconds=0).watching([listening.dup()]):
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


def test_a_heartbeat_without_a_free_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A healthy process without a free descriptor still feeds the watchdog and is not killed."""
    address = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    with _listen(address) as listening, ServiceManager() as manager:
        manager.notify("READY=1")
        assert listening.recv(100) == b"READY=1"
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            manager.notify("WATCHDOG=1")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert listening.recv(100) == b"WATCHDOG=1"


def test_a_restarted_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notifications reach the new socket of a restarted manager; without a socket nothing happens."""
    address = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    with ServiceManager() as manager:
        with _listen(address) as listening:
            manager.notify("READY=1")
            assert listening.recv(100) == b"READY=1"
        Path(address).unlink()
        manager.notify("WATCHDOG=1")
        with _listen(address) as listening:
            manager.notify("WATCHDOG=1")
            assert listening.recv(100) == b"WATCHDOG=1"


def _listen(address: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listening.bind(address)
    listening.setblocking(False)
    return listening
