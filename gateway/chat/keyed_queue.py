"""Work that keeps its order within a chat, while other chats go on: one line of people per counter."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable

import structlog

from agent.errors import StoreError

log = structlog.get_logger(__name__)

Job = Callable[[], Awaitable[object]]


class KeyedQueue:
    """One line per key. A line exists only while somebody stands in it."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[Job]] = {}
        self._workers: set[asyncio.Task[None]] = set()

    def put(self, key: Hashable, job: Job) -> None:
        line = self._waiting.get(key)
        if line is not None:
            line.append(job)
            return
        self._waiting[key] = deque([job])
        worker = asyncio.create_task(self._work(key))
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)

    def outcome(self, key: Hashable, job: Job) -> asyncio.Future[None]:
        """Puts it in line; what is given back ends with it. A StoreError comes out there: whatever else goes wrong
        would go wrong again."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            try:
                await job()
            except StoreError as error:
                if not ended.done():  # nobody waits any more
                    ended.set_exception(error)
            finally:
                if not ended.done():
                    ended.set_result(None)

        self.put(key, run)
        return ended

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
