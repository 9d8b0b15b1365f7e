"""Work that keeps its order within a chat, while other chats go on: one line of people per counter."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable

import structlog

log = structlog.get_logger(__name__)

Job = Callable[[], Awaitable[None]]


class Lines:
    """One line per key. A line exists only while somebody stands in it. `longest` bounds each, where more can come than
    is ever worked off."""

    def __init__(self, longest: int | None = None) -> None:
        self._longest = longest
        self._waiting: dict[Hashable, deque[Job]] = {}
        self._workers: set[asyncio.Task[None]] = set()

    def put(self, key: Hashable, job: Job) -> bool:
        """False if the line is too long; then the job is not done."""
        line = self._waiting.get(key)
        if line is not None:
            if self._longest is not None and len(line) >= self._longest:
                return False
            line.append(job)
            return True
        self._waiting[key] = deque([job])
        worker = asyncio.create_task(self._work(key))
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)
        return True

    async def close(self, seconds: float) -> None:
        """What stands in line is still done, for as long as that takes few seconds."""
        if self._workers:
            _, late = await asyncio.wait(self._workers, timeout=seconds)
            for worker in late:
                worker.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _work(self, key: Hashable) -> None:
        line = self._waiting[key]
        try:
            while line:
                try:
                    await line[0]()
                except Exception as error:  # noqa: BLE001 - one message must not hold up those behind it
                    await asyncio.to_thread(log.error, "chat.message_failed", exc_info=error)
                line.popleft()
        finally:
            del self._waiting[key]
