"""Jobs run in order within a chat, and a failed job does not stop the next one."""

from __future__ import annotations

import asyncio
from functools import partial

from agent.errors import StoreFull
from gateway.chat.keyed_queue import KeyedQueue


async def test_a_queue_finishes_a_whole_backlog_in_order() -> None:
    queue, done = KeyedQueue(), list[int]()
    for number in range(1_000):
        queue.put("chat", partial(_note, done, number))
    await queue.close(10)
    assert done == list(range(1_000))


async def test_a_failed_job_does_not_stop_the_jobs_behind_it() -> None:
    queue, done = KeyedQueue(), list[int]()
    for error in (StoreFull(), ZeroDivisionError()):
        queue.put("chat", partial(_fail, error))
        queue.put("chat", partial(_note, done, len(done)))
    queue.put("chat", partial(_note, done, 3))
    await queue.close(10)
    assert done == [0, 0, 3]


async def _fail(error: Exception) -> None:
    raise error


async def _note(done: list[int], number: int) -> None:
    await asyncio.sleep(0)
    done.append(number)
