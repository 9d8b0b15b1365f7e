"""Hooks: what happens in Hermes, told to plugins. None of them can disturb what they are told about."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import structlog

from agent.events import Compacted, TurnDone, TurnEvent, TurnFailed, TurnStarted
from agent.signatures import accepted_kwargs
from gateway.plugins.plugin_folder import PluginFault, run_foreign

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
"""Every event with what a callback may take by name. More may be added, so a callback gets only what it declares."""

TIME_LIMIT = 5.0
"""Seconds an event waits for its hooks, all together."""

MOST_THREADS = 8
"""Of one hook at a time. One that never returns is not called any more once it holds so many."""

Callback = Callable[..., Any]
"""A function, which runs in a thread, or an async function."""


@dataclass(frozen=True, slots=True, eq=False)
class Hook:
    plugin: str
    folder: Path
    event: Event
    callback: Callback


class Hooks:
    """All that were registered, in the order of their registration."""

    def __init__(self, *, seconds: float = TIME_LIMIT) -> None:
        self._seconds = seconds
        self._hooks: list[Hook] = []
        self._threads: Counter[Hook] = Counter()

    @property
    def all(self) -> Sequence[Hook]:
        return self._hooks

    def add(self, hook: Hook) -> None:
        self._hooks.append(hook)

    async def emit(self, event: Event, **data: Any) -> None:
        """Runs the event's hooks side by side. Raises nothing; one that takes too long is left behind."""
        tasks = {
            asyncio.create_task(self._run(hook, data)): hook for hook in self._hooks if hook.event == event
        }
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
                # In a thread, because showing a traceback reads source files.
                names = {"plugin": hook.plugin, "hook": event}
                await asyncio.to_thread(log.error, "plugin.hook_failed", exc_info=error, **names)

    async def _run(self, hook: Hook, data: Mapping[str, Any]) -> None:
        arguments = accepted_kwargs(hook.callback, data)
        if inspect.iscoroutinefunction(hook.callback):
            await hook.callback(**arguments)
        elif self._threads[hook] >= MOST_THREADS:
            log.warning("plugin.hook_skipped", plugin=hook.plugin, hook=hook.event)
        else:
            await self._run_in_thread(hook, arguments)

    def _run_in_thread(self, hook: Hook, arguments: Mapping[str, Any]) -> asyncio.Future[None]:
        """Not a thread of the pool: those are waited for when Hermes stops, and a hook may hang for ever."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def settle(fault: PluginFault | None) -> None:
            self._threads[hook] -= 1
            if ended.done():
                return
            if fault:
                ended.set_exception(fault)
            else:
                ended.set_result(None)

        def run() -> None:
            fault = None
            try:
                run_foreign(lambda: hook.callback(**arguments), hook.folder)
            except PluginFault as caught:
                fault = caught
            with contextlib.suppress(RuntimeError):  # Hermes has stopped meanwhile
                loop.call_soon_threadsafe(settle, fault)

        self._threads[hook] += 1
        name = f"hook {hook.event} of {hook.plugin}"
        threading.Thread(target=copy_context().run, args=(run,), name=name, daemon=True).start()
        return ended


def hook_for(event: TurnEvent) -> tuple[Event, dict[str, Any]] | None:
    """The hook that a turn event concerns, with what it tells."""
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
