"""An engine's seat: one caller at a time, whatever stops or fails."""

from __future__ import annotations

import asyncio
import threading

import pytest

from agent.context_engine import ContextEngine
from agent.engine_seat import EngineSeat
from agent.errors import EngineFailed
from agent.llm import Usage
from agent.messages import ChatDict


class Slow(ContextEngine):
    """Waits in `compress` until it is let go, and notes how many are inside."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.entered = threading.Event()
        self.inside = self.most_inside = 0
        self.usage: list[int] = []

    @property
    def name(self) -> str:
        return "slow"

    def update_from_response(self, usage: dict[str, int]) -> None:
        self.usage.append(usage["prompt_tokens"])

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        raise KeyError("a bug")

    def compress(
        self, messages: list[ChatDict], current_tokens: int | None = None, focus_topic: str | None = None
    ) -> list[ChatDict]:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.entered.set()
        assert self.release.wait(30)
        self.inside -= 1
        return messages


async def begun(engine: Slow, seat: EngineSeat) -> asyncio.Task[list[ChatDict]]:
    task = asyncio.create_task(seat.call(engine.compress, []))
    await asyncio.to_thread(engine.entered.wait, 10)
    return task


async def test_a_stop_does_not_free_the_seat_while_the_engine_is_at_work() -> None:
    """The thread cannot be stopped; the next caller waits for it."""
    engine = Slow()
    seat = EngineSeat(engine)
    first = await begun(engine, seat)
    first.cancel()
    await asyncio.wait([first])
    assert seat.busy
    second = asyncio.create_task(seat.call(engine.compress, []))
    engine.release.set()
    assert await asyncio.wait_for(second, 10) == []
    assert engine.most_inside == 1


async def test_usage_is_told_before_the_next_call() -> None:
    """A report never waits for an engine that is at work."""
    engine = Slow()
    seat = EngineSeat(engine)
    compressing = await begun(engine, seat)
    await asyncio.wait_for(seat.report(Usage(prompt_tokens=7)), 5)
    assert engine.usage == []
    engine.release.set()
    await compressing
    await seat.report(Usage(prompt_tokens=8))
    assert engine.usage == [7, 8]


async def test_what_an_engine_raises_is_its_own_failure() -> None:
    """Every call, not only compress()."""
    engine = Slow()
    with pytest.raises(EngineFailed) as caught:
        await EngineSeat(engine).call(engine.should_compress)
    assert isinstance(caught.value.__cause__, KeyError)
