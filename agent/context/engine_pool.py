"""The context engines of all conversations: one instance each, replaced when it fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from agent.aio import mark_exception_seen
from agent.compression.backoff import Backoff
from agent.context.child_session import for_engine, newest_request
from agent.context.engine_runner import DEADLINES, EngineRunner
from agent.context.live import LiveContext, last_prompt_tokens
from agent.context_engine import ContextEngine
from agent.errors import EngineFailed
from agent.llm import Usage
from agent.llm.selection import ModelInUse, ModelSelector
from agent.store import Session


class Pause:
    """Delay after a failure: no retry for the same message, or too soon."""

    def __init__(self) -> None:
        self._backoff = Backoff(time.monotonic)
        self._request = ""

    def begin(self, live: LiveContext) -> None:
        self._backoff.strike()
        self._request = _request_id(live)

    def holds(self, live: LiveContext) -> bool:
        is_same = self._backoff.strikes > 0 and self._request == _request_id(live)
        return is_same or self._backoff.is_waiting


class Troubles:
    """Notices about failing engines: one per conversation until everything that failed works again.

    A failing compaction is always told, once; another member is told only if nothing else is failing.
    """

    def __init__(self) -> None:
        self._failing: dict[str, set[str]] = {}
        self._told: dict[str, set[str]] = {}
        self._untold: dict[str, tuple[str, str]] = {}

    def note(self, conversation_id: str, what: str, sentence: str) -> None:
        """Note a failing member of the engine, or `compress` for a compaction without a result."""
        failing = self._failing.setdefault(conversation_id, set())
        told = self._told.setdefault(conversation_id, set())
        if what not in told and (not failing or what == "compress"):
            self._untold[conversation_id] = what, sentence
            told.add(what)
        failing.add(what)

    def over(self, conversation_id: str, what: str) -> None:
        self._failing.get(conversation_id, set()).discard(what)
        if what == "compress":
            self._told.get(conversation_id, set()).discard(what)

    def untold(self, conversation_id: str, what: str = "") -> str | None:
        """Return the notice that is due, or only one about `what`, and mark it as told."""
        if conversation_id not in self._untold or what not in ("", self._untold[conversation_id][0]):
            return None
        return self._untold.pop(conversation_id)[1]


class EnginePool:
    """The engines of all conversations: starts them, tells them about sessions, and replaces those that fail."""

    def __init__(
        self,
        new_engine: Callable[[], ContextEngine],
        models: ModelSelector,
        *,
        hermes_home: Path,
        seconds: Mapping[str, float] = DEADLINES,
    ) -> None:
        self.models = models
        self.troubles = Troubles()
        self._new_engine = new_engine
        self._hermes_home = hermes_home
        self._seconds = seconds
        self._runners: dict[str, EngineRunner] = {}
        self._starting: dict[str, asyncio.Task[EngineRunner]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._hung: set[str] = set()
        """Conversations in which an engine hung. The first such engine is replaced at once."""
        self._pauses: dict[str, Pause] = {}
        """By conversation: no engine for a while, because none started or a second one hung."""

    async def get(self, live: LiveContext) -> EngineRunner:
        """Return the conversation's engine, started if need be, and tell it the current model. Raises EngineFailed."""
        llm = await self.models.in_use(live.conversation)
        conversation_id = live.conversation.id
        runner = self._runners.get(conversation_id)
        if runner is not None and runner.is_abandoned:
            self._replace(live)
            runner = None
        if runner is None:
            runner = await self._started(live, llm)
        await runner.fit(llm)
        return runner

    def running(self, live: LiveContext) -> EngineRunner | None:
        """Return the conversation's engine if `get` has started it and it has neither hung nor been discarded since."""
        runner = self._runners.get(live.conversation.id)
        return None if runner is None or runner.is_abandoned else runner

    def peek(self, conversation_id: str) -> EngineRunner | None:
        """Return the conversation's last engine, even one that hangs, without a wait."""
        return self._runners.get(conversation_id)

    async def on_split(self, live: LiveContext) -> None:
        """Tell the engine about the child session. If that fails, another one takes its place."""
        if runner := self._runners.get(live.conversation.id):
            await self._continue(runner, live, "compression")

    async def reset(self, live: LiveContext, child: Session) -> None:
        """End the session for `/new` and `/reset`. An engine that fails is replaced with the next message."""
        left = replace(live)
        live.begin(child)
        with suppress(EngineFailed):
            runner = await self.get(left)
            if runner.busy:
                await self.discard(left)
            else:
                await self._end(runner, left)
                try:
                    await runner.on_session_reset()
                except EngineFailed:
                    self._runners.pop(live.conversation.id, None)
                else:
                    await self._continue(runner, live, "reset")

    async def discard(self, left: LiveContext) -> None:
        """Drop the engine when the conversation continues in another session: its state would be wrong there."""
        self._starting.pop(left.conversation.id, None)
        runner = self._runners.pop(left.conversation.id, None)
        if runner is None:
            return
        ending = asyncio.create_task(self._end(runner, replace(left)))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        # Do not wait for a summary that is not needed any more.
        if not runner.busy:
            await asyncio.shield(ending)

    async def close(self, live: LiveContext) -> None:
        if runner := self._runners.pop(live.conversation.id, None):
            await self._end(runner, live)

    @property
    def conversations(self) -> list[str]:
        """Conversations that have an engine."""
        return list(self._runners)

    async def _started(self, live: LiveContext, llm: ModelInUse) -> EngineRunner:
        """Return the engine, started once even if several callers wait and some are cancelled."""
        conversation_id = live.conversation.id
        starting = self._starting.get(conversation_id)
        if starting is None:
            if (pause := self._pauses.get(conversation_id)) and pause.holds(live):
                raise EngineFailed("It is tried again later.", method="__init__")
            starting = asyncio.create_task(self._start(replace(live), llm))
            starting.add_done_callback(mark_exception_seen)
            self._starting[conversation_id] = starting
        return await asyncio.shield(starting)

    async def _start(self, live: LiveContext, llm: ModelInUse) -> EngineRunner:
        conversation_id = live.conversation.id
        runner = EngineRunner(
            seconds=self._seconds,
            on_failure=lambda failure: self.troubles.note(conversation_id, failure.method, str(failure)),
            on_success=partial(self.troubles.over, conversation_id),
        )
        try:
            await runner.start(self._new_engine)
            await runner.fit(llm)
            await self._begin(runner, live)
            if live.session.prompt_tokens:
                # After a restart the engine knows again how full the window was.
                with suppress(EngineFailed):
                    await runner.report(Usage(prompt_tokens=last_prompt_tokens(live)))
        except EngineFailed:
            self._pauses.setdefault(conversation_id, Pause()).begin(live)
            raise
        finally:
            is_wanted = self._starting.get(conversation_id) is asyncio.current_task()
            if is_wanted:
                del self._starting[conversation_id]
        if is_wanted:
            self._runners[conversation_id] = runner
        else:
            # The conversation continued in another session meanwhile.
            await self._end(runner, live)
        return runner

    def _replace(self, live: LiveContext) -> None:
        """Drop an engine that hangs. After the second time wait a while: each engine that hangs keeps a thread."""
        conversation_id = live.conversation.id
        self._runners.pop(conversation_id, None)
        if conversation_id in self._hung:
            self._pauses.setdefault(conversation_id, Pause()).begin(live)
        self._hung.add(conversation_id)

    async def _continue(self, runner: EngineRunner, live: LiveContext, reason: str) -> None:
        """Tell the engine about the child session. One that fails here is dropped: it would confuse the sessions."""
        parent_id = live.session.parent_id
        try:
            await self._begin(
                runner, live, parent_session_id=parent_id, old_session_id=parent_id, boundary_reason=reason
            )
        except EngineFailed:
            self._runners.pop(live.conversation.id, None)

    async def _begin(self, runner: EngineRunner, live: LiveContext, **boundary: Any) -> None:
        llm = await self.models.in_use(live.conversation)
        await runner.on_session_start(
            live.session.id,
            **boundary,
            conversation_id=live.conversation.id,
            platform=live.conversation.address.platform,
            person=live.conversation.person,
            model=llm.model,
            context_length=llm.context_length,
            hermes_home=str(self._hermes_home),
        )

    async def _end(self, runner: EngineRunner, live: LiveContext) -> None:
        """Tell the engine that its session ends, and ignore a failure."""
        with suppress(EngineFailed):
            await runner.on_session_end(live.session.id, for_engine(live.system_prompt, live.history))


def _request_id(live: LiveContext) -> str:
    newest = newest_request(live.history)
    return "" if newest is None else live.history[newest].id
