"""Runs jobs one at a time per key, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable

from gateway.core.retry import guarded

Job = Callable[[], Awaitable[object]]


class KeyedQueue:
    """One queue per key, such as a chat. A queue exists only while it has jobs."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[Job]] = {}
        self._workers: set[asyncio.Task[None]] = set()

    def put(self, key: Hashable, job: Job) -> None:
        jobs = self._waiting.get(key)
        if jobs is not None:
            jobs.append(job)
            return
        self._waiting[key] = deque([job])
        worker = asyncio.create_task(self._work(key))
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)

    async def close(self, seconds: float) -> None:
        """Finish the queued jobs within so many seconds, then cancel the rest."""
        await finish_or_cancel(self._workers, seconds)

    async def _work(self, key: Hashable) -> None:
        jobs = self._waiting[key]
        try:
            while jobs:
                await run_job(jobs[0])
                jobs.popleft()
        finally:
            del self._waiting[key]


async def run_job(job: Job) -> None:
    """Run a job and log its error, so that the jobs behind it run too."""
    await guarded(job, "chat.message_failed", passes=())


async def finish_or_cancel(tasks: Collection[asyncio.Task[None]], seconds: float) -> None:
    """Wait so many seconds for the tasks, then cancel those that are late."""
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
