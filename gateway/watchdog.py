"""Detects a blocked event loop, in which no message is answered and no timeout fires.

A task records a heartbeat on the loop and feeds the watchdog of the service manager (`WatchdogSec=`), which restarts a
process that stops feeding it. A thread checks the heartbeat. When the heartbeat stops, the thread logs the blocking
code once and answers web requests in place of the loop, so that `/healthz` names the problem. Code that holds the GIL
blocks the thread too; a health check then gets no answer, which means the same.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

import structlog

from gateway.config.environment import notify_socket, watchdog_seconds

log = structlog.get_logger(__name__)

_BLOCKED_SECONDS = 5.0
"""Without a heartbeat for this long, the loop counts as blocked."""

_HEARTBEAT_SECONDS = 1.0
_CHECK_SECONDS = 0.5
_REQUEST_SECONDS = 1.0
"""Time limit for the head of a request, and again for the response."""
_MAX_HEAD_BYTES = 8_192


class ServiceManager:
    """Notifies the service manager that started this process (sd_notify), if there is one and it listens."""

    def __init__(self) -> None:
        address = notify_socket()
        # A leading @ marks an abstract socket, which has no path.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        # Opened once: a process without a free descriptor must still feed the watchdog.
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)

    def __enter__(self) -> ServiceManager:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def notify(self, state: str) -> None:
        """Send `READY=1`, `WATCHDOG=1` or `STOPPING=1`."""
        if self._address:
            with suppress(OSError):
                self._socket.sendto(state.encode(), self._address)


class Watchdog:
    """Watches the event loop that it is created on."""

    def __init__(self, manager: ServiceManager, *, blocked_seconds: float = _BLOCKED_SECONDS) -> None:
        self._manager = manager
        self._blocked_seconds = blocked_seconds
        self._heartbeat_at = time.monotonic()
        self._loop_thread = threading.get_ident()
        self._stopping = threading.Event()
        self._listening: tuple[socket.socket, ...] = ()

    @asynccontextmanager
    async def watching(self, sockets: Iterable[socket.socket] = ()) -> AsyncIterator[None]:
        """Watch the loop inside the `async with` block. `sockets` are those that the web server listens on."""
        self._listening = tuple(sockets)
        thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        heartbeat = asyncio.create_task(self._record_heartbeats())
        thread.start()
        try:
            yield
        finally:
            heartbeat.cancel()
            self._stopping.set()
            await asyncio.to_thread(thread.join, 2 * _REQUEST_SECONDS)
            for listening in self._listening:
                listening.close()

    async def _record_heartbeats(self) -> None:
        interval = watchdog_seconds()
        while True:
            self._heartbeat_at = time.monotonic()
            if interval:
                self._manager.notify("WATCHDOG=1")
            await asyncio.sleep(min(_HEARTBEAT_SECONDS, interval / 3) if interval else _HEARTBEAT_SECONDS)

    @property
    def _silent_seconds(self) -> float:
        return time.monotonic() - self._heartbeat_at

    def _watch(self) -> None:
        while not self._stopping.wait(_CHECK_SECONDS):
            if self._silent_seconds < self._blocked_seconds:
                continue
            log.error("event_loop.blocked", seconds=round(self._silent_seconds, 1), where=self._stack())
            began = time.monotonic() - self._silent_seconds
            while self._silent_seconds >= self._blocked_seconds and not self._stopping.wait(
                _CHECK_SECONDS / 5
            ):
                self._answer_requests()
            log.warning("event_loop.resumed", seconds=round(time.monotonic() - began, 1))

    def _stack(self) -> list[str]:
        """Return the innermost files and lines of the loop's thread, without variables."""
        frame = sys._current_frames().get(self._loop_thread)
        return [f"{each.filename}:{each.lineno} {each.name}" for each in traceback.extract_stack(frame)[-8:]]

    def _answer_requests(self) -> None:
        for listening in self._listening:
            # The socket is non-blocking, so connections that the resumed loop accepts do not hold this thread.
            with suppress(OSError):
                connection, _ = listening.accept()
                with connection:
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        deadline, head = time.monotonic() + _REQUEST_SECONDS, b""
        while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD_BYTES:
            if (left := deadline - time.monotonic()) <= 0:
                return
            connection.settimeout(left)
            if not (more := connection.recv(_MAX_HEAD_BYTES)):
                break
            head += more
        connection.settimeout(_REQUEST_SECONDS)
        problem = f"The event loop has been blocked for {self._silent_seconds:.0f} s; the log names the code."
        body = json.dumps({"status": "stuck", "service": "hermes", "problem": problem}).encode()
        lines = (
            "HTTP/1.1 503 Service Unavailable",
            "Content-Type: application/json; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "Retry-After: 5",
            "Connection: close",
        )
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
