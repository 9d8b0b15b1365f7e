"""Helpers for asyncio: finish work despite a cancel, contain foreign code, run it in daemon threads, lock by key."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")

_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


async def finish_despite_cancel(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end even if the caller is cancelled; the cancellation takes effect afterwards."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(mark_exception_seen)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


class ForeignError(Exception):
    """Foreign code raised `error`, perhaps a SystemExit."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


@contextmanager
def foreign_code(*ours: type[BaseException]) -> Iterator[None]:
    """Turn everything that the code inside raises into a ForeignError, except `ours` and a cancel by the caller.

    The one boundary to code of plugins, engines, tools and libraries that may raise anything.
    """
    try:
        yield
    except ours:
        raise
    except BaseException as error:
        if _is_by_caller(error):
            raise
        raise ForeignError(error) from error


def _is_by_caller(error: BaseException) -> bool:
    """Return whether the code was cancelled, closed or interrupted, instead of raising the error itself."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread; Ctrl-C only reaches the main thread
        is_main = threading.current_thread() is threading.main_thread()
        return is_main and isinstance(error, KeyboardInterrupt | GeneratorExit)
    if isinstance(error, asyncio.CancelledError):
        return task is None or task.cancelling() > 0
    return isinstance(error, GeneratorExit)


def run_in_daemon_thread(work: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Run foreign code in a daemon thread, which Hermes does not wait for when it stops.

    The future gets the result or the error. Raises RuntimeError if no thread can be started.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()

    def settle(set_outcome: Callable[[], None]) -> None:
        if not ended.done():
            set_outcome()

    def run() -> None:
        try:
            with foreign_code():
                set_outcome = partial(ended.set_result, work())
        except ForeignError as failure:
            set_outcome = partial(ended.set_exception, _harmless(failure.error))
        with suppress(RuntimeError):  # the loop is gone: Hermes has stopped meanwhile
            loop.call_soon_threadsafe(settle, set_outcome)

    _threads.run(partial(copy_context().run, run), name)
    return ended


def _harmless(error: BaseException) -> Exception:
    """Replace errors that a future cannot hold (StopIteration) or that would end the process (SystemExit)."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__} in a thread")


class _Threads:
    """Pool of daemon threads, because starting a thread costs more than most calls. A thread that hangs stays out."""

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


def mark_exception_seen(future: asyncio.Future[Any]) -> None:
    """Mark the error of a future as seen: its caller may be gone."""
    if not future.cancelled():
        future.exception()


def keyed_lock(key: str) -> asyncio.Lock:
    """Return the lock for this key, for callers that read, change and write the same thing."""
    return _locks.setdefault(key, asyncio.Lock())
