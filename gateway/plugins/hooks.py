"""Hooks: plugin functions that are called at events. A hook cannot disturb the event."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import structlog

from agent.aio import run_in_daemon_thread
from agent.context.engine_runner import accepted_kwargs
from agent.events import Compacted, TurnDone, TurnEvent, TurnFailed, TurnStarted
from gateway.plugins.plugin_folder import await_plugin_code, run_plugin_code

log = structlog.get_logger(__name__)

Event = Literal[
    "gateway_started", "gateway_stopped", "turn_started", "turn_done", "turn_failed", "session_split"
]

EVENTS: Mapping[Event, tuple[str, ...]] = {
    "gateway_started": ("platforms",),
    "gateway_stopped": (),
    "turn_started": ("conversation_id", "message_id", "platform"),
    "turn_done": ("conversation_id", "message_id", "platform", "stopped"),
    "turn_failed": ("conversation_id", "message_id", "platform", "error"),
    "session_split": (
        "conversation_id",
        "message_id",
        "platform",
        "session_id",
        "messages_before",
        "messages_after",
        "tokens_before",
        "tokens_after",
    ),
}
"""Every event with the arguments that a callback may declare. A callback gets only the arguments that it declares."""

TIME_LIMIT = 5.0
"""Seconds that an event waits for all of its hooks together."""

MAX_THREADS = 8
"""Threads per hook. A hook that never returns is not called again once it holds all of them."""

Callback = Callable[..., Any]
"""A function, which runs in a thread, or an async function."""


@dataclass(frozen=True, slots=True, eq=False)
class Hook:
    plugin: str
    folder: Path
    event: Event
    callback: Callback
    threads: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MAX_THREADS))
    """Limits the threads that run this hook at the same time. A hook that never returns keeps its threads."""


class Hooks:
    """All registered hooks, in the order of their registration."""

    def __init__(self, *, seconds: float = TIME_LIMIT) -> None:
        self._seconds = seconds
        self.all: list[Hook] = []

    async def emit(self, event: Event, **data: Any) -> None:
        """Run the hooks of the event concurrently. Raises nothing; does not wait for a hook that takes too long."""
        tasks = {asyncio.create_task(self._run(hook, data)): hook for hook in self.all if hook.event == event}
        if not tasks:
            return
        try:
            await asyncio.wait(tasks, timeout=self._seconds)
        finally:
            late = [task for task in tasks if not task.done()]
            for task in late:
                task.cancel()
        for task, hook in tasks.items():
            if task in late:
                log.warning("plugin.hook_late", plugin=hook.plugin, hook=event, seconds=self._seconds)
            elif not task.cancelled() and (error := task.exception()):
                await _log_failure(hook, error)

    async def _run(self, hook: Hook, data: Mapping[str, Any]) -> None:
        arguments = accepted_kwargs(hook.callback, data)
        if inspect.iscoroutinefunction(hook.callback):
            await await_plugin_code(hook.callback(**arguments), hook.folder)
        elif hook.threads.acquire(blocking=False):
            await _start_thread(hook, arguments)
        else:
            log.warning("plugin.hook_skipped", plugin=hook.plugin, hook=hook.event)


async def _log_failure(hook: Hook, error: BaseException) -> None:
    report = partial(log.error, "plugin.hook_failed", plugin=hook.plugin, hook=hook.event)
    try:
        # In a thread, because formatting a traceback reads source files.
        await asyncio.to_thread(report, exc_info=error)
    except RuntimeError:  # no thread could be started
        report(error=str(error))


def _start_thread(hook: Hook, arguments: Mapping[str, Any]) -> asyncio.Future[None]:
    def run() -> None:
        try:
            run_plugin_code(lambda: hook.callback(**arguments), hook.folder)
        finally:
            hook.threads.release()

    try:
        return run_in_daemon_thread(run, f"hook {hook.event} of {hook.plugin}")
    except RuntimeError:  # no thread could be started
        hook.threads.release()
        raise


def hook_for(event: TurnEvent) -> tuple[Event, dict[str, Any]] | None:
    """Return the hook event and the arguments for a turn event."""
    match event:
        case TurnStarted():
            return "turn_started", {}
        case TurnDone():
            return "turn_done", {"stopped": event.stopped}
        case TurnFailed():
            return "turn_failed", {"error": event.error}
        case Compacted():
            return "session_split", asdict(event)
        case _:
            return None
