"""Compaction: the only caller of an engine's `compress()` and of the split that follows.

Hygiene, the loop and `/compress` decide when; only this module knows how. Prepare, then publish: no transaction is
open while a model is asked, and the store refuses the split if the conversation moved on meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Literal

import structlog

from agent import auxiliary_client
from agent.carried_state import carried_state, with_state
from agent.context_plan import LiveContext, for_engine, plan_from
from agent.engine_seat import EngineSeat, EngineSeats
from agent.errors import EngineFailed, HeadMoved, InvalidCompaction
from agent.events import Compacted
from agent.fork import FORK_TASK, Fork
from agent.llm import ChatRequest, Completion, LLMClient
from agent.messages import ChatDict
from agent.store import Compaction, SessionStore, Split, SplitReason
from agent.tokens import estimate_messages_tokens_rough

log = structlog.get_logger(__name__)

Trigger = Literal["loop", "overflow", "background", "hygiene", "command"]
_REASONS: dict[Trigger, SplitReason] = {"hygiene": "hygiene", "command": "command"}

NOTHING_YET = "There is nothing to compress yet."


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a compaction came to. Without `compacted`, nothing was changed."""

    compacted: Compacted | None
    detail: str
    """A sentence for the person."""
    trouble: bool = False
    """It did not go as it should, and the person ought to be told."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """What an engine made of a session, not yet published."""

    session_id: str
    given: list[ChatDict]
    returned: list[ChatDict]
    seconds: float
    calls: tuple[Completion, ...]
    """What the engine asked of models, for the accounts."""


class Compactor:
    """Makes child sessions of conversations that have grown too large."""

    def __init__(
        self,
        store: SessionStore,
        seats: EngineSeats,
        *,
        auxiliary: auxiliary_client.Resolver,
        background_at: float,
        flush_memory: Callable[[LiveContext], Awaitable[None]] | None = None,
    ) -> None:
        self.seats = seats
        self._store = store
        self._auxiliary = auxiliary
        self._background_at = background_at
        self._flush_memory = flush_memory
        self.conversation_request: Callable[[LiveContext], Awaitable[ChatRequest]] | None = None
        """Set by the agent: the request it would send now, for a summary that reuses the provider's cache."""
        self._drafts: dict[str, asyncio.Task[_Draft]] = {}
        """By conversation: what is being prepared, or waits to be swapped in."""

    async def is_due(self, live: LiveContext, tokens: int) -> bool:
        """Whether the engine wants to compact now. While it is at work in the background, the threshold tells."""
        seat = await self.seats.of(live)
        if seat.busy:
            return 0 < seat.engine.threshold_tokens <= tokens
        return await seat.call(seat.engine.should_compress, tokens)

    async def is_due_before_the_call(self, live: LiveContext) -> bool:
        """For engines that can tell from the messages alone."""
        seat = await self.seats.of(live)
        if seat.busy:
            return False
        given = for_engine(live.system_prompt, live.history)
        return await seat.call(seat.engine.should_compress_preflight, given)

    async def compact(
        self, live: LiveContext, trigger: Trigger, *, focus: str | None = None, tokens: int | None = None
    ) -> Outcome:
        """Splits the session if that gains anything; `live` then stands at the child."""
        seat = await self.seats.of(live)
        prepared = self._drafts.pop(live.conversation.id, None)
        try:
            draft = await self._still_fitting(prepared, live) if focus is None else None
            draft = draft or await self._compress(seat, live, focus, tokens)
            return await self._publish(live, seat, draft, trigger, focus)
        except (EngineFailed, InvalidCompaction) as error:
            reason = error.__cause__ or error
            await asyncio.to_thread(
                log.warning, "compaction.failed", session=live.session.id, exc_info=reason
            )
            return Outcome(None, str(error), trouble=True)

    def prepare(self, live: LiveContext, seat: EngineSeat, tokens: int) -> None:
        """From the softer threshold on: begins in the background, to be swapped in before the next turn."""
        soft = seat.engine.threshold_tokens * self._background_at
        # A summary that could not be written is tried again while nobody waits.
        wanted = 0 < soft <= tokens or getattr(seat.engine, "has_stand_in", False)
        if wanted and live.conversation.id not in self._drafts:
            work = self._compress(seat, live, None, tokens)
            self._drafts[live.conversation.id] = asyncio.create_task(work)

    async def swap_in(self, live: LiveContext) -> Outcome | None:
        """Publishes what was prepared, if it is ready and the conversation did not go another way."""
        task = self._drafts.get(live.conversation.id)
        if task is None or not task.done():
            return None
        if task.exception() or await self._still_fitting(task, live) is None:
            del self._drafts[live.conversation.id]
            return None
        return await self.compact(live, "background")

    async def close(self) -> None:
        """What was being prepared is given up; the conversation is as it was."""
        for task in self._drafts.values():
            task.cancel()
        await asyncio.gather(*self._drafts.values(), return_exceptions=True)
        self._drafts.clear()

    async def _still_fitting(self, prepared: asyncio.Task[_Draft] | None, live: LiveContext) -> _Draft | None:
        """What was prepared, with what was said since then behind it."""
        draft = await prepared if prepared else None
        if draft is None or draft.session_id != live.session.id:
            return None
        now, taken = for_engine(live.system_prompt, live.history), len(draft.given)
        if now[:taken] != draft.given:
            return None
        returned = now if draft.returned is draft.given else [*draft.returned, *now[taken:]]
        return replace(draft, given=now, returned=returned)

    async def _compress(
        self, seat: EngineSeat, live: LiveContext, focus: str | None, tokens: int | None
    ) -> _Draft:
        session_id, given = live.session.id, for_engine(live.system_prompt, live.history)
        calls: list[Completion] = []
        began, loop = time.perf_counter(), asyncio.get_running_loop()
        resolver = await self._with_fork(live)
        with auxiliary_client.bound(resolver, loop, on_usage=lambda _, done: calls.append(done)):
            try:
                returned = await seat.call(
                    seat.engine.compress, given, current_tokens=tokens, focus_topic=focus
                )
            except Exception as error:  # an engine is a plugin: its bug must not cost the person a turn
                raise EngineFailed from error
        if self._flush_memory and returned != given:
            # Now it is known that turns will leave the context, and they are still here.
            await self._flush_memory(live)
        return _Draft(session_id, given, returned, time.perf_counter() - began, tuple(calls))

    async def _with_fork(self, live: LiveContext) -> auxiliary_client.Resolver:
        """Made before the engine begins: while it is at work nobody can ask it for its tools."""
        if self.conversation_request is None:
            return self._auxiliary
        request = await self.conversation_request(live)

        def resolve(task: str, model: str | None) -> LLMClient:
            found = self._auxiliary(task, model)
            return Fork(found, request) if task == FORK_TASK else found

        return resolve

    async def _publish(
        self, live: LiveContext, seat: EngineSeat, draft: _Draft, trigger: Trigger, focus: str | None
    ) -> Outcome:
        """One transaction. If somebody else was quicker, theirs stands."""
        plan = plan_from(draft.given, draft.returned, live.history)
        if plan is None:
            return _without_change(seat)
        plan = with_state(plan, await carried_state(self._store, live))
        record = _record(live, seat, draft, trigger, focus)
        split = Split(
            live.session.id,
            _REASONS.get(trigger, "compression"),
            plan.context,
            plan.system_prompt,
            engine=seat.engine.name,
            model=live.session.model,
            compaction=record,
        )
        try:
            child = await self._store.split(split)
        except HeadMoved:
            log.info("compaction.lost", session=live.session.id)
            return Outcome(None, "The conversation had moved on already.")
        live.session, live.history = child, await self._store.history(child.id)
        for call in draft.calls:
            await self._store.record_usage(child.id, call.usage, model=call.model, purpose="compression")
        await self.seats.moved(live)
        event = Compacted(
            child.id, record.messages_before, record.messages_after, record.tokens_before, record.tokens_after
        )
        kind = getattr(getattr(seat.engine, "last_outcome", None), "kind", "ok")
        return Outcome(event, _in_numbers(event), trouble=kind == "stand_in")


def _record(
    live: LiveContext, seat: EngineSeat, draft: _Draft, trigger: Trigger, focus: str | None
) -> Compaction:
    """Before: what the provider reported, if it did. After: the same, made smaller as the estimate says."""
    before, after = map(estimate_messages_tokens_rough, (draft.given, draft.returned))
    reported = live.session.prompt_tokens or before
    costs = [call.usage.cost_usd for call in draft.calls if call.usage.cost_usd is not None]
    outcome = getattr(seat.engine, "last_outcome", None)
    return Compaction(
        trigger,
        seat.engine.name,
        messages_before=len(draft.given) - 1,
        messages_after=sum(message.get("role") != "system" for message in draft.returned),
        tokens_before=max(reported, before),
        tokens_after=round(max(reported, before) * after / max(before, 1)),
        focus=focus,
        seconds=draft.seconds,
        cost_usd=sum(costs) if costs else None,
        outcome=getattr(outcome, "kind", "ok"),
    )


def _without_change(seat: EngineSeat) -> Outcome:
    outcome = getattr(seat.engine, "last_outcome", None)
    if outcome is not None and outcome.kind == "failed":
        return Outcome(None, outcome.detail, trouble=True)
    return Outcome(None, NOTHING_YET)


def _in_numbers(event: Compacted) -> str:
    return (
        f"{event.messages_before} -> {event.messages_after} messages, "
        f"~{_thousands(event.tokens_before)} -> ~{_thousands(event.tokens_after)} tokens"
    )


def _thousands(tokens: int) -> str:
    if tokens < 1_000:
        return str(tokens)
    return f"{tokens / 1_000:.0f}K" if tokens >= 10_000 else f"{tokens / 1_000:.1f}K"
