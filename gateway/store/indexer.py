"""Keeps the full-text index up to date in the background, and for those who search, at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from agent.errors import StoreError
from gateway.store.index import Progress, advance
from gateway.store.writer import Writer

log = structlog.get_logger(__name__)

PAUSE_SECONDS = 0.1
"""Between something new and the first step, and between steps while others are writing."""


class Indexer:
    def __init__(self, writer: Writer, progress: Callable[[], Awaitable[Progress]]) -> None:
        self._writer = writer
        self._progress = progress
        self._news = asyncio.Event()
        self._news.set()  # a crash may have left something to do
        self._one_at_a_time = asyncio.Lock()
        self._failures = 0
        self._task = asyncio.create_task(self._follow(), name="store-indexer")

    def notice(self) -> None:
        """Something was stored."""
        self._news.set()

    async def catch_up(self) -> None:
        """All that is stored by now is in the index when this returns, unless nothing can be written.

        Then a search goes through the rest by itself. It waits for one attempt and not for those of others.
        """
        failures = self._failures
        indexed, stored = await self._progress()
        while indexed < stored and failures == self._failures:
            try:
                indexed = await self._step(unless_failed_since=failures)
            except StoreError as error:
                log.warning("store.index_failed", error=str(error))

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(PAUSE_SECONDS)
            self._news.clear()
            try:
                await self._catch_up_gently()
            except StoreError as error:
                # Nothing is lost: the next message or search tries again.
                log.warning("store.index_failed", error=str(error))

    async def _catch_up_gently(self) -> None:
        """Back to back while nobody else writes, one step at a time while somebody does."""
        indexed, stored = await self._progress()
        while indexed < stored:
            indexed = await self._step()
            if self._writer.last_shared:
                await asyncio.sleep(PAUSE_SECONDS)

    async def _step(self, *, unless_failed_since: int | None = None) -> int:
        async with self._one_at_a_time:  # or ten searches at once would make one long transaction
            if unless_failed_since not in (None, self._failures):
                return 0
            try:
                return await self._writer.write(advance, lasting=False)  # it can be made again
            except StoreError:
                self._failures += 1
                raise
