"""Work in order within a chat, side by side between chats."""

from __future__ import annotations

import asyncio
from functools import partial

from agent.errors import StoreFull
from gateway.chat.keyed_queue import KeyedQueue


async def test_a_line_takes_a_whole_backlog() -> None:
    """A service hands over a hundred messages of one chat at once: none of them is lost, and the order stays."""
    lines, done = KeyedQueue(), list[int]()
    for number in range(1_000):
        lines.put("chat", partial(_note, done, number))
    await lines.close(10)
    assert done == list(range(1_000))


async def test_whoever_waits_for_a_job_hears_of_a_store_that_refused_it() -> None:
    """Whatever else goes wrong would go wrong again, so nobody is told to try again."""
    lines, done = KeyedQueue(), list[int]()

    async def full() -> None:
        raise StoreFull

    async def broken() -> None:
        raise ZeroDivisionError

    outcomes = [lines.put_and_wait("chat", job) for job in (partial(_note, done, 1), full, broken)]
    results = await asyncio.gather(*outcomes, return_exceptions=True)
    assert [type(result) for result in results] == [type(None), StoreFull, type(None)]
    assert done == [1]


async def _note(done: list[int], number: int) -> None:
    await asyncio.sleep(0)
    done.append(number)
