"""Hooks get the events and cannot disturb them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from structlog.testing import capture_logs

from agent.aio import run_in_daemon_thread
from agent.events import Compacted, TextDelta, TurnDone, TurnEvent, TurnFailed, TurnStarted
from gateway.plugins.hooks import EVENTS, MAX_THREADS, Event, Hook, Hooks, hook_for
from gateway.plugins.loader import Plugins, load_plugins
from tests.support.foreign_plugins import write_plugin

DONE: dict[str, Any] = {"conversation_id": "c", "message_id": "m", "platform": "web", "stopped": False}
NOWHERE = Path("nowhere")


def hooks_of(*callbacks: Callable[..., Any], seconds: float = 30.0) -> Hooks:
    hooks = Hooks(seconds=seconds)
    for callback in callbacks:
        hooks.all.append(Hook("acme", NOWHERE, "turn_done", callback))
    return hooks


async def test_a_plugin_hears_what_it_asked_for(private_home: Path) -> None:
    """Functions and async functions get the data they declare."""
    code = """
from gateway.commands import Command

heard = []

async def later(conversation_id, **rest):
    heard.append(f"{conversation_id} {sorted(rest)}")

async def tell(context, rest):
    return "; ".join(sorted(heard))

def register(ctx):
    ctx.register_hook("turn_done", lambda message_id: heard.append(message_id))
    ctx.register_hook("turn_done", later)
    ctx.register_hook("turn_failed", lambda: heard.append("failed"))
    ctx.register_command(Command("heard", "what was heard", tell))
"""
    write_plugin(private_home, code)
    plugins = await asyncio.to_thread(load_plugins, private_home, ["acme"])
    await plugins.hooks.emit("turn_done", **DONE)
    (command,) = plugins.commands
    heard = await command.run(None, "")  # type: ignore[arg-type]
    assert heard == "c ['message_id', 'platform', 'stopped']; m"


async def test_without_hooks_nothing_happens() -> None:
    await Plugins().hooks.emit("gateway_stopped")


async def test_a_failing_hook_is_logged_and_no_more() -> None:
    """The other hooks are called, also after SystemExit."""
    heard: list[str] = []

    def leave() -> None:
        raise SystemExit(3)

    async def leave_later() -> None:
        raise SystemExit(3)

    async def interrupt() -> None:
        raise KeyboardInterrupt

    async def cancel() -> None:
        raise asyncio.CancelledError

    async def fail(message_id: str) -> None:
        raise ValueError(message_id)

    def needs_more(no_such_data: str) -> None:
        heard.append("never")

    with capture_logs() as logs:
        await hooks_of(
            leave, leave_later, interrupt, cancel, fail, needs_more, lambda platform: heard.append(platform)
        ).emit("turn_done", **DONE)
    assert heard == ["web"]
    assert {line["event"] for line in logs} == {"plugin.hook_failed"}
    causes = [type(line["exc_info"].__cause__).__name__ for line in logs]
    assert sorted(causes) == [
        "CancelledError",
        "KeyboardInterrupt",
        "SystemExit",
        "SystemExit",
        "TypeError",
        "ValueError",
    ]
    assert all((line["plugin"], line["hook"]) == ("acme", "turn_done") for line in logs)


async def test_a_hook_is_called_again_after_threads_could_not_be_started() -> None:
    freed, heard = threading.Event(), threading.Event()
    idle = [run_in_daemon_thread(lambda: freed.wait(30), "holds an idle thread") for _ in range(8)]
    hooks = hooks_of(heard.set)
    ordinary = threading.stack_size(2**46)  # more than the address space has: no thread can start
    try:
        with capture_logs() as logs:
            for _ in range(MAX_THREADS + 1):
                await hooks.emit("turn_done", **DONE)
    finally:
        threading.stack_size(ordinary)
        freed.set()
    assert [line["event"] for line in logs] == ["plugin.hook_failed"] * (MAX_THREADS + 1)
    assert not heard.is_set()
    await asyncio.gather(*idle)
    await hooks.emit("turn_done", **DONE)
    assert heard.is_set()


async def test_a_function_runs_beside_the_event_loop() -> None:
    where: list[int] = []
    await hooks_of(lambda: where.append(threading.get_ident())).emit("turn_done", **DONE)
    assert where and where != [threading.get_ident()]


async def test_a_late_hook_is_left_behind() -> None:
    """An async function is cancelled; a thread continues."""
    never, freed = asyncio.Event(), threading.Event()
    ends: list[str] = []

    async def wait() -> None:
        try:
            await never.wait()
        finally:
            ends.append("cancelled")

    def hang() -> None:
        freed.wait(30)
        ends.append("freed")

    with capture_logs() as logs:
        await hooks_of(wait, hang, seconds=0.05).emit("turn_done", **DONE)
    assert [line["event"] for line in logs] == ["plugin.hook_late"] * 2
    await asyncio.sleep(0)
    assert ends == ["cancelled"]
    freed.set()


async def test_a_hook_that_never_returns_gets_no_more_threads() -> None:
    freed, calls = threading.Event(), threading.Semaphore(0)

    def hang() -> None:
        calls.release()
        freed.wait(30)

    hooks = hooks_of(hang, seconds=0.01)
    with capture_logs() as logs:
        for _ in range(MAX_THREADS + 2):
            await hooks.emit("turn_done", **DONE)
    assert [line["event"] for line in logs].count("plugin.hook_skipped") == 2
    assert sum(calls.acquire(blocking=False) for _ in range(MAX_THREADS + 2)) == MAX_THREADS
    freed.set()


async def test_a_turn_that_is_stopped_takes_its_hooks_along() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    telling = asyncio.create_task(hooks_of(wait).emit("turn_done", **DONE))
    await began.wait()
    telling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await telling
    await asyncio.wait_for(ended.wait(), 5)


@pytest.mark.parametrize(
    "event",
    [
        TurnStarted("m", "hi"),
        TurnDone("hi"),
        TurnFailed("no"),
        Compacted("s", messages_before=9, messages_after=3, tokens_before=900, tokens_after=300),
    ],
    ids=lambda event: type(event).__name__,
)
def test_turn_events_carry_what_was_promised(event: TurnEvent) -> None:
    """They never contain messages."""
    told = hook_for(event)
    assert told is not None
    name, data = told
    assert {"conversation_id", "message_id", "platform", *data} == set(EVENTS[name])


def test_other_turn_events_have_no_hook() -> None:
    assert hook_for(TextDelta("hi")) is None


def test_every_event_is_described() -> None:
    """The type and the table name the same events."""
    assert set(EVENTS) == set(get_args(Event))
