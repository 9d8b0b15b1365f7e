"""Notices an event loop that stands still: while it does, no message is answered and no timeout of the loop fires.

The loop beats. Each beat feeds the service manager's watchdog (`WatchdogSec`), which ends and restarts a process that
stops feeding it. A thread looks at the beats: when they stop, it logs where the loop is, once, and answers those who
connect to the web server in the loop's place, so that `/healthz` says what is wrong instead of nothing. Code that holds
the interpreter's lock stops the thread, too; then nobody answers, which a health check takes for the same.
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
from functools import cache

import structlog

from gateway.config.environment import notify_socket, watchdog_seconds


def sd_notify(state: str) -> None:
    """`READY=1`, `WATCHDOG=1` or `STOPPING=1`. A manager that does not listen is no reason to stop working."""
    address = notify_socket()
    if not address:
        return
    with suppress(OSError):
        # A leading @ stands for a name that is in no directory.
        _socket().sendto(state.encode(), f"\0{address[1:]}" if address.startswith("@") else address)


@cache
def _socket() -> socket.socket:
    """Kept from the first call on: a process without a free descriptor still has to give its signs of life."""
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    manager.setblocking(False)
    return manager


log = structlog.get_logger(__name__)

STUCK_SECONDS = 5.0
"""Without a beat for so long, the loop stands still."""

_BEAT_SECONDS = 1.0
_LOOK_SECONDS = 0.5
_REQUEST_SECONDS = 1.0
"""For the whole head of a request, and again for the answer."""
_LONGEST_HEAD = 8_192


class Watchdog:
    """Made on the event loop that it watches."""

    def __init__(self, *, stuck_seconds: float = STUCK_SECONDS) -> None:
        self._stuck_seconds = stuck_seconds
        self._beat_at = time.monotonic()
        self._loop_thread = threading.get_ident()
        self._over = threading.Event()
        self._listening: tuple[socket.socket, ...] = ()

    @asynccontextmanager
    async def watching(self, sockets: Iterable[socket.socket] = ()) -> AsyncIterator[None]:
        """As long as this lasts. `sockets`: those that the web server listens on."""
        self._listening = tuple(sockets)
        thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        beating = asyncio.create_task(self._beat())
        thread.start()
        try:
            yield
        finally:
            beating.cancel()
            self._over.set()
            await asyncio.to_thread(thread.join, 2 * _REQUEST_SECONDS)
            for listening in self._listening:
                listening.close()

    async def _beat(self) -> None:
        interval = watchdog_seconds()
        while True:
            self._beat_at = time.monotonic()
            if interval:
                sd_notify("WATCHDOG=1")
            await asyncio.sleep(min(_BEAT_SECONDS, interval / 3) if interval else _BEAT_SECONDS)

    @property
    def _still_for(self) -> float:
        return time.monotonic() - self._beat_at

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            if self._still_for < self._stuck_seconds:
                continue
            log.error("loop.stands_still", seconds=round(self._still_for, 1), where=self._where())
            began = time.monotonic() - self._still_for
            while self._still_for >= self._stuck_seconds and not self._over.wait(_LOOK_SECONDS / 5):
                self._answer_instead()
            log.warning("loop.moves_again", seconds=round(time.monotonic() - began, 1))

    def _where(self) -> list[str]:
        """Files and lines, without what is in the variables."""
        frame = sys._current_frames().get(self._loop_thread)
        return [f"{each.filename}:{each.lineno} {each.name}" for each in traceback.extract_stack(frame)[-8:]]

    def _answer_instead(self) -> None:
        for listening in self._listening:
            # Non-blocking: the loop, once it moves, takes the others.
            with suppress(OSError):
                connection, _ = listening.accept()
                with connection:
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        deadline, head = time.monotonic() + _REQUEST_SECONDS, b""
        while b"\r\n\r\n" not in head and len(head) < _LONGEST_HEAD:
            if (left := deadline - time.monotonic()) <= 0:
                return
            connection.settimeout(left)
            if not (more := connection.recv(_LONGEST_HEAD)):
                break
            head += more
        connection.settimeout(_REQUEST_SECONDS)
        problem = f"The event loop has not moved for {self._still_for:.0f} s; the log says where it is."
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
