"""Protects messages from failures: of the store, of a bug or foreign code, and of the whole process.

Each death of the process counts for every message whose turn was running. A message that was running at two deaths is
a suspect: it runs later, and never beside another suspect, so a further death counts only for the suspect that ran.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

import structlog

from agent.aio import ForeignError, foreign_code
from agent.errors import HermesError, StoreBusy, StoreError, StoreFull, StoreReadOnly
from gateway.store.ports import InboxMessage

log = structlog.get_logger(__name__)

T = TypeVar("T")

_MIN_PAUSE, _MAX_PAUSE = 0.5, 15.0
TRANSIENT_STORE_ERRORS = (StoreBusy, StoreFull, StoreReadOnly)
"""Errors that can pass without a repair of the database: a lock, a full disk, a read-only file system."""

MAX_ATTEMPTS = 10
"""Attempts of one message in all processes, after which the message is parked: the message may be killing them."""
SUSPECT_AFTER = 2
"""Deaths of the process during a message's turn that make the message a suspect."""
SUSPECT_DELAY = 1.0
"""Seconds before a suspect runs; doubled with each further death. Other messages are answered first, and a process
that something else kills again and again dies during the delay, which does not count."""
_MAX_DELAY = 60.0


async def retry_store(
    work: Callable[[], Awaitable[T]], *, trouble: tuple[type[StoreError], ...] = TRANSIENT_STORE_ERRORS
) -> T:
    """Run `work` until the store accepts it, with growing pauses. Raises all errors other than `trouble`."""
    pause = _MIN_PAUSE
    while True:
        try:
            return await work()
        except trouble as error:
            log.warning("store.waited_for", error=type(error).__name__, seconds=pause)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _MAX_PAUSE)


class Crash:
    """The outcome of work that failed with an unexpected error, which is in the log."""


async def guarded(
    work: Callable[[], Awaitable[T]],
    event: str,
    *,
    passes: tuple[type[Exception], ...] = (HermesError,),
    **fields: object,
) -> T | Crash:
    """Run work that may have a bug or call foreign code; log a crash as `event`. Raises errors in `passes`."""
    try:
        with foreign_code(asyncio.CancelledError, KeyboardInterrupt, *passes):
            return await work()
    except ForeignError as failure:
        # In a thread, because formatting a traceback reads source files.
        await asyncio.to_thread(log.error, event, exc_info=failure.error, **fields)
        return Crash()


class Suspects:
    """The suspects among the messages of this process."""

    def __init__(self, delay: float = SUSPECT_DELAY) -> None:
        self._delay = delay
        self._deaths: dict[str, int] = {}
        """By message id."""
        self._lock = asyncio.Lock()

    def find(self, unfinished: Iterable[InboxMessage]) -> None:
        """Remember the suspects among the messages that an earlier process did not finish.

        A message without attempts left is parked at once, so it need not wait.
        """
        self._deaths |= {
            row.id: row.attempts for row in unfinished if SUSPECT_AFTER <= row.attempts < MAX_ATTEMPTS
        }

    @asynccontextmanager
    async def isolated(self, message_id: str) -> AsyncIterator[None]:
        """Delay a suspect, then block all other suspects until it ends. Does nothing for any other message."""
        deaths = self._deaths.pop(message_id, 0)
        if not deaths:
            yield
            return
        delay = min(self._delay * 2 ** (deaths - SUSPECT_AFTER), _MAX_DELAY)
        log.warning("turn.suspect", deaths=deaths, seconds=delay)
        await asyncio.sleep(delay)
        async with self._lock:
            yield
