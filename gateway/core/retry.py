"""Work that waits for a store which refuses for a while: a full disk, a lock that somebody holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from agent.errors import StoreBusy, StoreError, StoreFull, StoreReadOnly

log = structlog.get_logger(__name__)

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
TRANSIENT_STORE_ERRORS = (StoreBusy, StoreFull, StoreReadOnly)
"""What ends without anybody looking into the database."""


async def retry_store(
    work: Callable[[], Awaitable[T]], *, trouble: tuple[type[StoreError], ...] = TRANSIENT_STORE_ERRORS
) -> T:
    """For what has been taken already, or comes only once: nobody is asked to send it again. Whatever else goes wrong
    comes out."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await work()
        except trouble as error:
            log.warning("store.waited_for", error=type(error).__name__, seconds=pause)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
