"""Work that a cancellation must not cut in half."""

from __future__ import annotations

import asyncio

import pytest

from agent.aio import ForeignError, finish_despite_cancel, foreign_code, run_in_daemon_thread


async def test_it_runs_to_its_end_however_often_the_caller_is_cancelled() -> None:
    """The second and the third cancellation wait as the first does; then they take effect."""
    begun, release, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await release.wait()
        ended.set()

    caller = asyncio.create_task(finish_despite_cancel(work()))
    await begun.wait()
    for _ in range(3):
        caller.cancel()
        await asyncio.wait([caller], timeout=0.01)
        assert not caller.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended.is_set()


async def test_its_result_and_its_error_reach_the_caller() -> None:
    """As if it had been awaited."""

    async def work(value: int) -> int:
        return 10 // value

    assert await finish_despite_cancel(work(5)) == 2
    with pytest.raises(ZeroDivisionError):
        await finish_despite_cancel(work(0))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ZeroDivisionError("no"), ZeroDivisionError),
        (StopIteration(1), RuntimeError),
        (SystemExit(3), RuntimeError),
        (KeyboardInterrupt(), RuntimeError),
        (asyncio.CancelledError(), RuntimeError),
    ],
)
async def test_a_daemon_thread_settles_its_future_whatever_is_raised(
    error: BaseException, expected: type[Exception]
) -> None:
    """The caller gets an ordinary error, and the next work gets a thread."""

    def work() -> None:
        raise error

    async with asyncio.timeout(30):
        with pytest.raises(expected):
            await run_in_daemon_thread(work, "raises")
        assert await run_in_daemon_thread(lambda: 5, "works") == 5


@pytest.mark.parametrize(
    "error", [ValueError, SystemExit, StopIteration, asyncio.CancelledError, LookupError]
)
async def test_foreign_code_fails_in_one_way(error: type[BaseException]) -> None:
    """Even an error that would end the process or the task; the host's own errors pass unchanged."""
    with pytest.raises(ForeignError) as caught, foreign_code(KeyError):
        raise error
    assert type(caught.value.error) is error
    with pytest.raises(KeyError), foreign_code(KeyError):
        raise KeyError


async def test_a_cancel_passes_through_foreign_code() -> None:
    """The turn is being cancelled, so no tool or plugin has failed."""
    began = asyncio.Event()

    async def work() -> None:
        with foreign_code():
            began.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await began.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
