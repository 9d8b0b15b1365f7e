"""Messages that may have killed the process run one at a time."""

from __future__ import annotations

import asyncio

from gateway.core.retry import SUSPECT_AFTER, Suspects
from gateway.store.ports import InboxMessage


def _row(message_id: str, attempts: int) -> InboxMessage:
    return InboxMessage(message_id, "web", {}, attempts=attempts)


class Runs:
    """Turns of suspects that start when they may and end when the test says so."""

    def __init__(self, *ids: str, attempts: int = SUSPECT_AFTER) -> None:
        self.suspects = Suspects(delay=0.0)
        self.suspects.find([_row(each, attempts) for each in ids])
        self.started = {each: asyncio.Event() for each in ids}
        self.ends = {each: asyncio.Event() for each in ids}
        self.tasks = {each: asyncio.create_task(self._run(each)) for each in ids}

    async def _run(self, message_id: str) -> None:
        async with self.suspects.isolated(message_id):
            self.started[message_id].set()
            await self.ends[message_id].wait()


async def _an_hour_passes() -> None:
    """Every timer that is due within an hour fires."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + 3_600  # type: ignore[method-assign]
    try:
        for _ in range(10):
            await asyncio.sleep(0)
    finally:
        loop.time = now  # type: ignore[method-assign]


async def test_a_suspect_starts_only_after_the_one_before_it_has_ended() -> None:
    """However long that takes: else the next death would count for both."""
    runs = Runs("msg_slow", "msg_next")
    await asyncio.wait_for(runs.started["msg_slow"].wait(), 10)
    await _an_hour_passes()
    assert not runs.started["msg_next"].is_set()
    runs.ends["msg_slow"].set()
    await asyncio.wait_for(runs.started["msg_next"].wait(), 10)
    runs.ends["msg_next"].set()
    await asyncio.gather(*runs.tasks.values())


async def test_a_stopped_suspect_makes_way() -> None:
    runs = Runs("msg_slow", "msg_next")
    await asyncio.wait_for(runs.started["msg_slow"].wait(), 10)
    runs.tasks["msg_slow"].cancel()
    await asyncio.wait_for(runs.started["msg_next"].wait(), 10)
    runs.ends["msg_next"].set()
    await runs.tasks["msg_next"]


async def test_other_messages_run_beside_each_other() -> None:
    runs = Runs("msg_1", "msg_2", attempts=SUSPECT_AFTER - 1)
    for started in runs.started.values():
        await asyncio.wait_for(started.wait(), 10)
    for end in runs.ends.values():
        end.set()
    await asyncio.gather(*runs.tasks.values())
