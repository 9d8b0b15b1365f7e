"""The context engines of all conversations: one instance each, never called by two at once or on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog

from agent.context_engine import ContextEngine
from agent.context_plan import LiveContext, for_engine
from agent.declared import declared
from agent.errors import EngineFailed
from agent.llm import LLMClient, Usage
from agent.locks import turn_on
from agent.messages import ChatDict
from agent.models import Models
from agent.store import Session
from agent.uninterrupted import in_daemon_thread

log = structlog.get_logger(__name__)
T = TypeVar("T")


class EngineSeat:
    """One conversation's engine. Engines are synchronous and may be slow: each call has its turn in a thread."""

    def __init__(self, engine: ContextEngine) -> None:
        self.engine = engine
        self.model = ""
        self._free = asyncio.Lock()
        self._callers = 0
        self._schemas: list[ChatDict] | None = None
        self._reported: list[dict[str, int]] = []
        """Usage that came while the engine was at work; it is told before its next call."""

    @property
    def busy(self) -> bool:
        """Somebody is being served or waits for it."""
        return self._callers > 0 or self._free.locked()

    async def call(self, method: Callable[..., T], *arguments: Any, **optional: Any) -> T:
        """Optional arguments that the engine does not declare are left out. Raises EngineFailed for what it raises."""
        self._callers += 1
        try:
            await self._free.acquire()
            work = partial(self._run, method, arguments, optional)
            ended = in_daemon_thread(work, f"context engine {self.engine.name}")
            # The seat is free when the thread is done, not when a stop makes somebody stop waiting for it.
            ended.add_done_callback(lambda _: self._free.release())
            return await asyncio.shield(ended)
        except Exception as error:
            raise EngineFailed from error
        finally:
            self._callers -= 1

    async def tool_schemas(self) -> list[ChatDict]:
        """Asked for once: the model's tool list must not change while a conversation goes on."""
        if self._schemas is None:
            self._schemas = await self.call(self.engine.get_tool_schemas)
        return self._schemas

    async def report(self, usage: Usage) -> None:
        """Never waits for a compaction that runs in the background."""
        self._reported.append(
            {
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "total_tokens": usage.total_tokens,
                "cache_read_tokens": usage.cache_read_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
            }
        )
        if not self.busy:
            await self.call(_nothing)

    def _run(self, method: Callable[..., T], arguments: tuple[Any, ...], optional: dict[str, Any]) -> T:
        reported, self._reported = self._reported, []
        for usage in reported:
            self.engine.update_from_response(dict(usage))
        return method(*arguments, **declared(method, optional))


class EngineSeats:
    """Makes engines, tells them where their conversation stands, and lets them go at real boundaries."""

    def __init__(self, new_engine: Callable[[], ContextEngine], models: Models, *, hermes_home: Path) -> None:
        self.models = models
        self._new_engine = new_engine
        self._hermes_home = hermes_home
        self._seats: dict[str, EngineSeat] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def of(self, live: LiveContext) -> EngineSeat:
        """The conversation's engine, fitted to the model that answers now. Raises EngineFailed."""
        llm = await self.models.of(live.conversation)
        async with turn_on(f"engine {live.conversation.id}"):
            seat = self._seats.get(live.conversation.id)
            if seat is None:
                # Known only once it has begun: an engine that cannot begin is tried again with the next message.
                seat = self._seats[live.conversation.id] = await self._made(live, llm)
        if seat.model != llm.model and not seat.busy:
            await self._fit(seat, llm)
        return seat

    def known(self, conversation_id: str) -> EngineSeat | None:
        """The engine there is, for those who only look: none is made, begun or waited for."""
        return self._seats.get(conversation_id)

    async def _made(self, live: LiveContext, llm: LLMClient) -> EngineSeat:
        seat = EngineSeat(await asyncio.to_thread(self._new_engine))
        await self._fit(seat, llm)
        await self._begin(seat, live)
        if live.session.prompt_tokens:
            # After a restart the engine knows again how full the window was.
            await seat.report(Usage(prompt_tokens=live.session.prompt_tokens))
        return seat

    async def moved(self, live: LiveContext) -> None:
        """After a split: the same engine goes on in the child session."""
        await self._begin(
            self._seats[live.conversation.id],
            live,
            parent_session_id=live.session.parent_id,
            boundary_reason="compression",
        )

    async def reset(self, live: LiveContext, child: Session) -> None:
        """`/new` and `/reset`: the session ends, the engine forgets it and begins with the child."""
        seat = await self.of(live)
        if seat.busy:
            await self.leave(live)
            return
        await self._end(seat, live)
        await seat.call(seat.engine.on_session_reset)
        live.session, live.history = child, []
        await self._begin(seat, live, parent_session_id=child.parent_id, boundary_reason="reset")

    async def leave(self, left: LiveContext) -> None:
        """The conversation goes on elsewhere: what its engine has learnt would mislead it, so another takes over."""
        seat = self._seats.pop(left.conversation.id, None)
        if seat is None:
            return
        ending = asyncio.create_task(self._end(seat, replace(left)))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        # Nobody waits for a summary that is not wanted any more.
        if not seat.busy:
            await asyncio.shield(ending)

    async def rewound(self, left: LiveContext, live: LiveContext) -> EngineSeat:
        """After an undo: another engine begins as after a restart."""
        await self.leave(left)
        return await self.of(live)

    async def close(self, live: LiveContext) -> None:
        """Shutdown or expiry: the session ends and the engine goes."""
        if seat := self._seats.pop(live.conversation.id, None):
            await self._end(seat, live)

    @property
    def conversations(self) -> list[str]:
        """Those with an engine."""
        return list(self._seats)

    async def _begin(self, seat: EngineSeat, live: LiveContext, **boundary: Any) -> None:
        llm = await self.models.of(live.conversation)
        await seat.call(
            seat.engine.on_session_start,
            live.session.id,
            **boundary,
            conversation_id=live.conversation.id,
            platform=live.conversation.address.platform,
            person=live.conversation.person,
            model=llm.model,
            context_length=llm.context_length,
            hermes_home=str(self._hermes_home),
        )

    async def _end(self, seat: EngineSeat, live: LiveContext) -> None:
        """Its session is over either way; what goes wrong now is only worth a line in the log."""
        messages = for_engine(live.system_prompt, live.history)
        try:
            await seat.call(seat.engine.on_session_end, live.session.id, messages)
        except EngineFailed as error:
            await asyncio.to_thread(log.warning, "engine.end_failed", exc_info=error.__cause__)

    async def _fit(self, seat: EngineSeat, llm: LLMClient) -> None:
        seat.model = llm.model
        await seat.call(seat.engine.update_model, llm.model, llm.context_length)


def _nothing() -> None:
    """Only to have the reported usage told."""
