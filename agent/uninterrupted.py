"""Work that a stop must not cut in half, and threads that a shutdown need not wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Runs to its end even if the caller is stopped meanwhile; the stop takes effect afterwards."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(_looked_at)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def in_daemon_thread(work: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Not a thread of the pool: those are waited for when Hermes stops, and foreign code may hang for ever."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()
    ended.add_done_callback(_looked_at)

    def settle(result: T | None, error: BaseException | None) -> None:
        if ended.done():
            return
        if error is not None:
            ended.set_exception(error)
        else:
            ended.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001 - carried over to whoever waits
            error = raised
        with suppress(RuntimeError):  # the loop is gone: Hermes has stopped meanwhile
            loop.call_soon_threadsafe(settle, result, error)

    _threads.run(partial(copy_context().run, run), name)
    return ended


class _Threads:
    """Daemon threads that wait for more when they are done: to start one costs more than most calls. One that hangs
    is never asked again."""

    def __init__(self, most_idle: int) -> None:
        self._most_idle = most_idle
        self._idle: list[SimpleQueue[Callable[[], None]]] = []

    def run(self, work: Callable[[], None], name: str) -> None:
        # Popping and appending are atomic, and one idle thread more or less does no harm.
        with suppress(IndexError):
            self._idle.pop().put(work)
            return
        inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        inbox.put(work)
        threading.Thread(target=self._serve, args=(inbox,), name=name, daemon=True).start()

    def _serve(self, inbox: SimpleQueue[Callable[[], None]]) -> None:
        while True:
            inbox.get()()
            if len(self._idle) >= self._most_idle:
                return
            self._idle.append(inbox)


_threads = _Threads(most_idle=8)


def _looked_at(future: asyncio.Future[Any]) -> None:
    """Whoever started it may be gone; an error is then nobody's."""
    if not future.cancelled():
        future.exception()
