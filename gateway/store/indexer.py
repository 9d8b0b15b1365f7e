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
        self._task = asyncio.create_task(self._follow(), name="store-indexer")

    def notice(self) -> None:
        """Something was stored."""
        self._news.set()

    async def catch_up(self) -> None:
        """All that is stored by now is in the index when this returns."""
        indexed, stored = await self._progress()
        while indexed < stored:
            indexed = await self._step()

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

    async def _step(self) -> int:
        async with self._one_at_a_time:  # or ten searches at once would make one long transaction
            return await self._writer.write(advance, lasting=False)  # it can be made again
