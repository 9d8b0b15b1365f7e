"""Runs jobs one at a time per key, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable

import structlog

from agent.errors import StoreError

log = structlog.get_logger(__name__)

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

    def put_and_wait(self, key: Hashable, job: Job) -> asyncio.Future[None]:
        """Queue a job, and return a future that ends with it. The future raises the job's StoreError, so that the
        caller can repeat the job; other errors are logged."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            try:
                await job()
            except StoreError as error:
                if not ended.done():  # the caller was cancelled
                    ended.set_exception(error)
            finally:
                if not ended.done():
                    ended.set_result(None)

        self.put(key, run)
        return ended

    async def close(self, seconds: float) -> None:
        """Finish the queued jobs within so many seconds, then cancel the rest."""
        if self._workers:
            _, late = await asyncio.wait(self._workers, timeout=seconds)
            for worker in late:
                worker.cancel()
            await asyncio.gather(*late, return_exceptions=True)

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
    try:
        await job()
    except Exception as error:  # noqa: BLE001 - jobs call chat SDKs, which may raise anything
        await asyncio.to_thread(log.error, "chat.message_failed", exc_info=error)
