"""Order: every event is a task of its own, yet what one channel said is handed on in the order in which it came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any
from weakref import WeakValueDictionary


class Lanes:
    """One for each channel, for as long as somebody is in it."""

    def __init__(self) -> None:
        self._lanes: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._inside: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def turn(self, channel_id: int, *, overtakes: bool = False) -> AsyncIterator[None]:
        """Waits for those who came before, unless it may overtake them."""
        task = asyncio.current_task()
        assert task is not None
        self._inside.add(task)
        lane: AbstractAsyncContextManager[None] = self._lanes.setdefault(channel_id, asyncio.Lock())
        try:
            async with nullcontext() if overtakes else lane:
                yield
        finally:
            self._inside.discard(task)

    async def empty(self, seconds: float) -> None:
        """Until nobody is left in them, but no longer than that."""
        if self._inside:
            await asyncio.wait(self._inside, timeout=seconds)
