"""EngineRunner: one call at a time with a deadline, also after cancellations and failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from functools import partial

import pytest
import structlog

from agent import auxiliary_client
from agent.context.engine_runner import DEADLINES, EngineRunner
from agent.context_engine import ContextEngine
from agent.errors import EngineFailed, InvalidCompaction
from agent.llm import ChatRequest, Completion, Usage
from agent.llm.selection import ModelInUse
from agent.messages import ChatDict
from agent.testing import ScriptedLLM, Step
from tests.support.hostile_engine import Hostile, raising

SHORT = {**DEADLINES, "compress": 0.5}


class Slow(ContextEngine):
    """Waits in `compress` until `release` is set, and counts the calls inside."""

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
        return False

    def compress(
        self, messages: list[ChatDict], current_tokens: int | None = None, focus_topic: str | None = None
    ) -> list[ChatDict]:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.entered.set()
        assert self.release.wait(30)
        self.inside -= 1
        return messages


async def runner_of(engine: ContextEngine, seconds: Mapping[str, float] = DEADLINES) -> EngineRunner:
    runner = EngineRunner(seconds=seconds)
    await runner.start(lambda: engine)
    return runner


def compress(runner: EngineRunner) -> asyncio.Task[list[ChatDict]]:
    return asyncio.create_task(runner.compress([], tokens=None, focus=None))


async def begun(engine: Slow, runner: EngineRunner) -> asyncio.Task[list[ChatDict]]:
    task = compress(runner)
    await asyncio.to_thread(engine.entered.wait, 10)
    return task


async def test_a_stop_does_not_free_the_engine_while_it_is_at_work() -> None:
    """The thread cannot be stopped; the next caller waits for it."""
    engine = Slow()
    runner = await runner_of(engine)
    first = await begun(engine, runner)
    first.cancel()
    await asyncio.wait([first])
    assert runner.busy
    second = compress(runner)
    engine.release.set()
    assert await asyncio.wait_for(second, 10) == []
    assert engine.most_inside == 1


async def test_usage_is_told_before_the_next_call() -> None:
    """A report never waits for an engine that is at work."""
    engine = Slow()
    runner = await runner_of(engine)
    compressing = await begun(engine, runner)
    await asyncio.wait_for(runner.report(Usage(prompt_tokens=7)), 5)
    assert engine.usage == []
    engine.release.set()
    await compressing
    await runner.report(Usage(prompt_tokens=8))
    assert engine.usage == [7, 8]


async def test_what_an_engine_raises_is_its_own_failure() -> None:
    """Every call, not only compress(); the failure names the method."""
    runner = await runner_of(Hostile({"should_compress": raising(lambda: KeyError("a bug"))}))
    with pytest.raises(EngineFailed, match="`should_compress` raised") as caught:
        await runner.should_compress(1)
    assert caught.value.method == "should_compress"


async def test_an_error_that_cannot_be_logged_is_a_failure_of_the_engine() -> None:
    """The `__str__` of an error is the engine's code, too; the runner stays usable."""

    shown: list[str] = []

    class Unprintable(Exception):
        def __str__(self) -> str:
            shown.append("tried")
            raise SystemExit(3)

    def render(_: object, __: str, event: dict[str, object]) -> str:
        return str(event.get("exc_info"))

    runner = await runner_of(Hostile({"should_compress": raising(Unprintable)}))
    before = structlog.get_config()["processors"]
    structlog.configure(processors=[render])
    try:
        with pytest.raises(EngineFailed, match="`should_compress` raised") as caught:
            await runner.should_compress(1)
    finally:
        structlog.configure(processors=before)
    assert caught.value.method == "should_compress" and not runner.busy
    assert shown, "the error was not logged at all"


async def test_usage_that_cannot_be_told_does_not_fail_the_next_call() -> None:
    """It is a failure of `update_from_response`, and of nothing else."""
    failures: list[EngineFailed] = []
    runner = EngineRunner(on_failure=failures.append)
    await runner.start(partial(Hostile, {"update_from_response": raising(StopIteration)}))
    runner._reported.append({"prompt_tokens": 1})
    assert await runner.should_compress(5_000)
    assert [failure.method for failure in failures] == ["update_from_response"]


async def test_a_call_that_hangs_is_abandoned_even_if_its_caller_was_cancelled() -> None:
    """Its caller was cancelled; who waits behind it is not left waiting."""
    engine = Slow()
    runner = await runner_of(engine, SHORT)
    first = await begun(engine, runner)
    first.cancel()
    with pytest.raises(EngineFailed):
        await asyncio.wait_for(compress(runner), 20)
    assert runner.is_abandoned and not runner.busy
    engine.release.set()


async def test_waiting_for_a_model_is_not_hanging() -> None:
    """The model has a time limit of its own; the engine's deadline counts what it does itself."""

    class Asking(Slow):
        def compress(
            self, messages: list[ChatDict], current_tokens: int | None = None, focus_topic: str | None = None
        ) -> list[ChatDict]:
            auxiliary_client.call_llm(task="compression", messages=[])
            return messages

    def answer(request: ChatRequest) -> Step:
        return Completion("At last.")

    class Late(ScriptedLLM):
        async def complete(self, request: ChatRequest) -> Completion:
            hanging = Slow()
            with auxiliary_client.bound(lambda task, model: self):
                runner = await runner_of(hanging, SHORT)
                with pytest.raises(EngineFailed):  # begun later with the same deadline, which has passed now
                    await compress(runner)
            assert runner.is_abandoned
            hanging.release.set()
            return await super().complete(request)

    runner = await runner_of(Asking(), SHORT)
    llm = Late([answer])
    with auxiliary_client.bound(lambda task, model: llm):
        assert await compress(runner) == []
    assert len(llm.requests) == 1 and not runner.is_abandoned


@pytest.mark.parametrize("returned", [None, 7, [None], [{"role": "user", "content": b"x"}]])
async def test_what_is_no_list_of_messages_is_an_invalid_compaction(returned: object) -> None:
    """Said by its own name, so that the person reads what happened."""
    runner = await runner_of(Hostile({"compress": lambda messages: returned}))
    with pytest.raises(InvalidCompaction):
        await runner.compress([{"role": "user", "content": "x"}], tokens=None, focus=None)


async def test_the_engine_is_free_again_when_no_thread_could_be_started() -> None:
    """A lock that is kept would hold up the conversation for ever."""
    engines = [Slow() for _ in range(10)]
    runners = [await runner_of(engine) for engine in engines]
    others = [await begun(engine, runner) for engine, runner in zip(engines, runners, strict=True)]
    # No idle thread is left, and the system has no room for a stack of that size.
    runner = EngineRunner()
    usual = threading.stack_size(1 << 46)
    try:
        with pytest.raises(EngineFailed, match="No thread"):
            await runner.start(Slow)
    finally:
        threading.stack_size(usual)
    assert not runner.busy
    await asyncio.wait_for(runner.start(Slow), 10)
    for engine in engines:
        engine.release.set()
    await asyncio.gather(*others)


class OlderSignatures(Slow):
    """Declares less than the contract offers."""

    def should_compress(self) -> bool:  # type: ignore[override]
        return True

    def compress(self, messages: list[ChatDict]) -> list[ChatDict]:  # type: ignore[override]
        return messages[:1]

    def on_session_start(self, session_id: str) -> None:  # type: ignore[override]
        """Nothing beside the id."""

    def on_session_end(self) -> None:  # type: ignore[override]
        """Not even that."""

    def update_model(self, model: str) -> None:  # type: ignore[override]
        """Without the window."""

    def handle_tool_call(self, name: str, args: dict[str, str]) -> str:  # type: ignore[override]
        return name


async def test_an_engine_that_declares_less_is_called_with_less() -> None:
    """It was written for an earlier contract, and runs unchanged."""
    runner = await runner_of(OlderSignatures())
    message = {"role": "user", "content": "x"}
    await runner.fit(ModelInUse("m", 1_000))
    await runner.on_session_start("s", old_session_id="r")
    assert await runner.should_compress(1)
    assert await runner.compress([message, message], tokens=3, focus="y") == [message]
    assert await runner.handle_tool_call("t", {}, [message]) == "t"
    await runner.on_session_end("s", [message])


async def test_what_goes_wrong_after_a_stop_is_no_failure_of_the_engine() -> None:
    """The stop took its model away, so that it raises; the person has stopped it and knows."""

    class Stopped(Slow):
        def compress(self, *args: object, **kwargs: object) -> list[ChatDict]:
            super().compress([])
            raise ValueError("the model is gone")

    engine, failures = Stopped(), list[EngineFailed]()
    runner = EngineRunner(on_failure=failures.append)
    await runner.start(lambda: engine)
    stopped = await begun(engine, runner)
    stopped.cancel()
    await asyncio.wait([stopped])
    engine.release.set()
    await runner.should_compress(1)
    assert failures == []
