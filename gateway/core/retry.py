"""Retries work while the store is temporarily unavailable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from agent.errors import StoreBusy, StoreError, StoreFull, StoreReadOnly

log = structlog.get_logger(__name__)

T = TypeVar("T")

_MIN_PAUSE, _MAX_PAUSE = 0.5, 15.0
TRANSIENT_STORE_ERRORS = (StoreBusy, StoreFull, StoreReadOnly)
"""Errors that can pass without a repair of the database: a lock, a full disk, a read-only file system."""


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
