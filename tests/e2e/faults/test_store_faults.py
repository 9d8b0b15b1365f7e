"""The database is locked, full or read-only at three moments of a message's life.

Other cases: `unit/gateway/chat/test_recovery.py` (the store is full) and `unit/gateway/store/test_faults.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent.errors import StoreError
from agent.events import TurnDone, TurnFailed
from agent.messages import ToolCall
from agent.testing import ScriptedLLM, Step
from agent.tool import ToolContext, tool
from gateway.chat.delivery.text_message import CURSOR
from gateway.core.turns import _STORE_UNAVAILABLE
from gateway.store.sqlite.connection import open_reader, open_writer
from gateway.store.sqlite.database import Database
from gateway.store.sqlite.store import SqliteStore
from tests.support.chat_service import ChatService
from tests.support.fault_harness import FaultHarness, open_harness
from tests.support.store_faults import (
    Fault,
    StoreOnDisk,
    full,
    held,
    read_only,
    require_small_disk,
    small_disk,
)

FAULTS = [held, full, read_only]
faults = pytest.mark.parametrize("fault", FAULTS, ids=[each.__name__ for each in FAULTS])


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path) as directory:
        yield directory


launched: list[str] = []
has_landed = asyncio.Event()


@tool(effects=True)
async def launch(ctx: ToolContext, what: str) -> str:
    """Starts something that cannot be taken back, and waits until it has landed."""
    launched.append(what)
    await has_landed.wait()
    return f"The {what} has landed."


class Bot:
    """One life of a process, on a file and a service that stay."""

    def __init__(self, harness: FaultHarness, home: StoreOnDisk, llm: ScriptedLLM) -> None:
        self.at, self.home, self.llm = harness, home, llm


@asynccontextmanager
async def running_bot(directory: Path, service: ChatService, *answers: Step) -> AsyncIterator[Bot]:
    path = directory / "state.db"
    writing = await open_writer(path)
    store = SqliteStore(Database(path, [await open_reader(path), await open_reader(path)], writing))
    llm = ScriptedLLM(answers)
    workspaces = directory / "workspaces"
    try:
        async with open_harness(
            llm, store=store, service=service, tools=[launch], workspaces=workspaces
        ) as harness:
            yield Bot(harness, StoreOnDisk(path, store, writing), llm)
    finally:
        await store.close()


def inject(fault: Fault, home: StoreOnDisk) -> AbstractAsyncContextManager[object]:
    require_small_disk(fault, home)
    return fault(home)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in other tasks of this loop
            await asyncio.sleep(0.005)


@pytest.fixture
def service() -> ChatService:
    return ChatService(limit=4000)


@pytest.fixture(autouse=True)
def reset_launches() -> None:
    launched.clear()
    has_landed.clear()


@pytest.mark.parametrize("fault", [held, read_only], ids=["held", "read_only"])
async def test_when_it_is_taken(disk: Path, service: ChatService, fault: Fault) -> None:
    """It is not acknowledged, its author is told once, and when it comes again it is taken once."""
    async with running_bot(disk, service, "Taken.") as bot:
        message = bot.at.written("Are you there?")
        async with inject(fault, bot.home):
            for _ in range(2):
                with pytest.raises(StoreError):
                    await bot.at.receiver.message(message)
            await until(lambda: bool(service.texts()))
        assert await bot.at.store.inbox.waiting(service.platform) == []
        for _ in range(2):
            await bot.at.receiver.message(message)
        await until(lambda: "Taken." in service.texts())
    told, answer = service.texts()
    assert "cannot store your message" in told
    assert (answer, len(bot.llm.requests)) == ("Taken.", 1)


async def told_to_wait(service: ChatService) -> None:
    await until(lambda: _STORE_UNAVAILABLE in service.texts())


async def wait_for_saved_progress(bot: Bot, service: ChatService) -> None:
    """Wait until the person sees the beginning of the answer and the outbox knows where."""
    await until(lambda: any("This is the" in text for text in service.texts()))
    async with asyncio.timeout(10):
        while not any(  # noqa: ASYNC110 - the outbox is another task's; only its rows tell
            item.progress.shown_in for item in await bot.at.store.outbox.undelivered(service.platform)
        ):
            await asyncio.sleep(0.005)


@faults
async def test_in_the_middle_of_a_turn(disk: Path, service: ChatService, fault: Fault) -> None:
    """What the tool did cannot be written down: its author is told, and once it can the turn goes on by itself."""
    call = ToolCall("c1", "launch", '{"what": "rocket"}')
    async with running_bot(disk, service, ["Here goes.", call], "It may have landed.") as bot:
        turning = asyncio.create_task(bot.at.turn("Launch it."))
        await until(lambda: bool(launched))
        async with inject(fault, bot.home):
            has_landed.set()
            await told_to_wait(service)
        assert (await turning)[-1] == TurnDone("It may have landed.")
        assert "Whether it took effect is unknown" in str(bot.llm.requests[1].messages[-1])
        await bot.at.close()
        assert [role for role, _ in await bot.at.said()] == ["user", "assistant", "tool", "assistant"]
        assert await bot.at.is_idle()
    assert launched == ["rocket"]
    assert service.texts() == ["Here goes.", _STORE_UNAVAILABLE, "It may have landed."]


@faults
async def test_when_the_answer_is_stored(disk: Path, service: ChatService, fault: Fault) -> None:
    """A streamed answer that could not be stored is deleted and written again."""
    gate = asyncio.Event()
    async with running_bot(
        disk, service, ["This is the", gate, " answer."], "This is the answer, again."
    ) as bot:
        turning = asyncio.create_task(bot.at.turn("What is it?"))
        await wait_for_saved_progress(bot, service)
        async with inject(fault, bot.home):
            gate.set()
            await told_to_wait(service)
        assert (await turning)[-1] == TurnDone("This is the answer, again.")
        await bot.at.close()
        assert await bot.at.said() == [("user", "What is it?"), ("assistant", "This is the answer, again.")]
        assert await bot.at.is_idle()
    assert service.texts() == [_STORE_UNAVAILABLE, "This is the answer, again."]


@faults
async def test_when_it_does_not_end_before_the_next_start(
    disk: Path, service: ChatService, fault: Fault
) -> None:
    """The next process does what this one would have done."""
    gate = asyncio.Event()
    async with running_bot(disk, service, ["This is the", gate, " answer."]) as bot:
        turning = asyncio.create_task(bot.at.turn("What is it?"))
        await wait_for_saved_progress(bot, service)
        async with inject(fault, bot.home):
            gate.set()
            await told_to_wait(service)
            await bot.at.close()
            failed = (await turning)[-1]
            assert isinstance(failed, TurnFailed)
            assert service.texts() == ["This is the answer.", _STORE_UNAVAILABLE, f"⚠ {failed.error}"]
    async with running_bot(disk, service, "This is the answer, again.") as bot:
        await until(lambda: "This is the answer, again." in service.texts())
        await bot.at.close()
        assert await bot.at.said() == [("user", "What is it?"), ("assistant", "This is the answer, again.")]
        assert await bot.at.is_idle()
    assert service.texts() == [_STORE_UNAVAILABLE, f"⚠ {failed.error}", "This is the answer, again."]


@faults
async def test_when_it_is_noted_that_it_was_shown(disk: Path, service: ChatService, fault: Fault) -> None:
    """The answer is shown once; progress that could not be saved is saved with the next answer."""
    async with running_bot(disk, service, "First.", "Second.") as bot:
        held_up = service.hold("send")
        events = await bot.at.turn("One.")
        assert events[-1] == TurnDone("First.")
        await held_up.reached.wait()
        async with inject(fault, bot.home):
            assert held_up.gate
            held_up.gate.set()
            with capture_logs() as logs:
                await until(lambda: "chat.progress_not_saved" in [line["event"] for line in logs])
            assert service.texts() == ["First."]
            (left,) = await bot.at.store.outbox.undelivered(service.platform)
            assert left.progress.state == "sending"
        await bot.at.turn("Two.")
        await until(lambda: service.texts() == ["First.", "Second."])
        await bot.at.close()
        assert await bot.at.is_idle()
    assert not any(CURSOR in text for text in service.texts())
