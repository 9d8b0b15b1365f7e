"""Waits for conditions: `Watch` by events, from any thread and any event loop; `until` by polling."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future

PATIENCE = 10.0
"""Seconds a test waits for the server to see something before it fails."""


async def until(condition: Callable[[], object]) -> None:
    """Poll a condition that has no event of its own, such as a row of a database; it may be a coroutine function."""
    async with asyncio.timeout(30):
        while True:
            found = condition()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(0.005)


class Watch:
    """Conditions over a server's state; `changed()` after each change wakes those that have come true."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: list[tuple[Callable[[], bool], Future[None]]] = []

    def until(self, condition: Callable[[], bool]) -> Future[None]:
        """For threads: `.result(timeout)`. In a coroutine use `wait`."""
        future: Future[None] = Future()
        with self._lock:
            self._waiters.append((condition, future))
        self.changed()
        return future

    async def wait(self, condition: Callable[[], bool]) -> None:
        await asyncio.wait_for(asyncio.wrap_future(self.until(condition)), PATIENCE)

    def changed(self) -> None:
        with self._lock:
            done = [future for condition, future in self._waiters if future.cancelled() or condition()]
            self._waiters = [waiter for waiter in self._waiters if waiter[1] not in done]
        for future in done:
            if future.set_running_or_notify_cancel():
                future.set_result(None)
