"""Compaction: the only caller of an engine's `compress()` and of the split that follows.

Hygiene, the loop and `/compress` decide when; only this module knows how. Prepare, then publish: no transaction is
open while a model is asked, and the store refuses the split if the conversation moved on meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Literal

import structlog

from agent import auxiliary_client
from agent.carried_state import carried_state, with_state
from agent.compression.outcome import NOTHING_TO_DO, in_numbers
from agent.context_plan import LiveContext, for_engine, plan_from
from agent.engine_models import models_for_engine
from agent.engine_seat import EngineSeat, EngineSeats
from agent.errors import EngineFailed, HeadMoved, InvalidCompaction
from agent.events import Compacted
from agent.fork import FORK_TASK, Fork
from agent.llm import ChatRequest, LLMClient
from agent.messages import ChatDict, Message
from agent.store import Compaction, SessionStore, Split, SplitReason
from agent.tokens import estimate_messages_tokens_rough
from agent.uninterrupted import uninterrupted

log = structlog.get_logger(__name__)

Trigger = Literal["loop", "overflow", "background", "hygiene", "command"]
_REASONS: dict[Trigger, SplitReason] = {"hygiene": "hygiene", "command": "command"}

_GROWTH = 1.1
"""What was prepared once and is as large as before is not prepared again until it has grown by so much."""

RequestNow = Callable[[], ChatRequest]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a compaction came to. Without `compacted`, nothing was changed."""

    compacted: Compacted | None
    detail: str
    """A sentence for the person."""
    trouble: bool = False
    """It did not go as it should, and the person ought to be told."""


@dataclass(slots=True)
class Attempt:
    """A compaction under way, for whoever counts them."""

    trigger: Trigger
    result: str = "failed"
    """In the end: `ok`, `stand_in`, `nothing`, `lost` or `failed`, or what the engine calls it."""
    seconds: float = 0.0
    """What the engine took, perhaps before this in the background."""


Watch = Callable[[Attempt], AbstractContextManager[object]]
"""Is around every compaction."""


def _unwatched(attempt: Attempt) -> AbstractContextManager[object]:
    return nullcontext()


@dataclass(frozen=True, slots=True)
class _Draft:
    """What an engine made of a session, not yet published."""

    session_id: str
    given: list[ChatDict]
    returned: list[ChatDict]
    seconds: float
    cost_usd: float | None
    """Of what the engine asked of models, where prices are known."""


class Compactor:
    """Makes child sessions of conversations that have grown too large."""

    def __init__(
        self,
        store: SessionStore,
        seats: EngineSeats,
        *,
        auxiliary: Callable[[LLMClient], auxiliary_client.Resolver],
        background_at: float,
        flush_memory: Callable[[LiveContext], Awaitable[None]] | None = None,
        watch: Watch = _unwatched,
    ) -> None:
        self.seats = seats
        self._store = store
        self._auxiliary = auxiliary
        """Whom an engine asks, given the model that answers in the conversation."""
        self.background_at = background_at
        """The share of the threshold from which on a compaction is prepared between the turns."""
        self._flush_memory = flush_memory
        self._watch = watch
        self._drafts: dict[str, asyncio.Task[_Draft]] = {}
        """By conversation: what is being prepared, or waits to be swapped in."""
        self._prepared_at: dict[str, int] = {}
        """By conversation: how large it was when a draft was last begun."""
        self.request_now: Callable[[LiveContext], Awaitable[RequestNow]] | None = None
        """Set by the agent: the request it would send now, for a summary that reuses the provider's cache."""

    async def is_due(self, live: LiveContext, tokens: int) -> bool:
        """Whether the engine wants to compact now. While it is at work in the background, the threshold tells."""
        seat = await self.seats.of(live)
        if seat.busy:
            return 0 < seat.engine.threshold_tokens <= tokens
        return await seat.call(seat.engine.should_compress, tokens)

    async def is_due_by_the_messages(self, live: LiveContext) -> bool:
        """For engines that can tell before a call, from the messages alone."""
        seat = await self.seats.of(live)
        if seat.busy:
            return False
        given = for_engine(live.system_prompt, live.history)
        return await seat.call(seat.engine.should_compress_preflight, given)

    async def compact(
        self, live: LiveContext, trigger: Trigger, *, focus: str | None = None, tokens: int | None = None
    ) -> Outcome:
        """Splits the session if that gains anything; `live` then stands at the child."""
        attempt = Attempt(trigger)
        try:
            with self._watch(attempt):
                seat = await self.seats.of(live)
                draft = await self._prepared(live, focus) or await self._compress(seat, live, focus, tokens)
                attempt.seconds = draft.seconds
                return await self._publish(live, seat, draft, attempt, focus)
        except (EngineFailed, InvalidCompaction) as error:
            reason = error.__cause__ or error
            await asyncio.to_thread(
                log.warning, "compaction.failed", session=live.session.id, exc_info=reason
            )
            return Outcome(None, str(error), trouble=True)

    def prepare(self, live: LiveContext, seat: EngineSeat, tokens: int) -> None:
        """From the softer threshold on: begins in the background, to be swapped in before the next turn."""
        conversation_id, threshold = live.conversation.id, seat.engine.threshold_tokens
        # A summary that could not be written is tried again while nobody waits.
        redo = getattr(seat.engine, "has_stand_in", False)
        if not redo and not 0 < threshold * self.background_at <= tokens:
            self._prepared_at.pop(conversation_id, None)
            return
        grown = tokens >= self._prepared_at.get(conversation_id, 0) * _GROWTH
        if grown and conversation_id not in self._drafts:
            self._prepared_at[conversation_id] = tokens
            work = self._compress_if_wanted(seat, live, tokens)
            self._drafts[conversation_id] = asyncio.create_task(work)

    async def swap_in(self, live: LiveContext) -> Outcome | None:
        """Publishes what was prepared, if it is ready and the conversation did not go another way."""
        task = self._drafts.get(live.conversation.id)
        if task is None or not task.done():
            return None
        if task.cancelled() or (not task.exception() and _fitted(task.result(), live) is None):
            del self._drafts[live.conversation.id]
            return None
        return await self.compact(live, "background")

    async def add_note(self, live: LiveContext, text: str) -> None:
        """Behind all that was said so far, for the model alone."""
        append = self._store.append(live.session.id, [Message("user", text, kind="note")])
        live.history += await uninterrupted(append)

    @asynccontextmanager
    async def models_for_tool(self, live: LiveContext) -> AsyncIterator[None]:
        """A tool of the engine asks those who write its summaries, too."""
        resolver = await self._models_beside(live)
        async with models_for_engine(self._store, live.session.id, resolver, purpose="engine_tool"):
            yield

    async def close(self) -> None:
        """What was being prepared is given up; the conversation is as it was."""
        for task in self._drafts.values():
            task.cancel()
        await asyncio.gather(*self._drafts.values(), return_exceptions=True)
        self._drafts.clear()

    async def _prepared(self, live: LiveContext, focus: str | None) -> _Draft | None:
        """The draft of the background, if it still fits and no focus asks for something else.

        Waited for even where it is not wanted: the engine is at work on it.
        """
        task = self._drafts.get(live.conversation.id)
        if task is None:
            return None
        try:
            draft = await asyncio.shield(task)
        finally:
            if task.done():
                self._drafts.pop(live.conversation.id, None)
        return _fitted(draft, live) if focus is None else None

    async def _compress_if_wanted(self, seat: EngineSeat, live: LiveContext, tokens: int) -> _Draft:
        """Asked as if the threshold were reached, so that an engine which holds back is not overruled."""
        live = replace(live, history=list(live.history))
        at_threshold = max(tokens, seat.engine.threshold_tokens)
        if await seat.call(seat.engine.should_compress, at_threshold):
            return await self._compress(seat, live, None, tokens)
        given = for_engine(live.system_prompt, live.history)
        return _Draft(live.session.id, given, given, 0.0, None)

    async def _compress(
        self, seat: EngineSeat, live: LiveContext, focus: str | None, tokens: int | None
    ) -> _Draft:
        session_id, given = live.session.id, for_engine(live.system_prompt, live.history)
        resolver = await self._with_fork(live)
        began = time.perf_counter()
        async with models_for_engine(self._store, session_id, resolver, purpose="compression") as calls:
            returned = await seat.call(seat.engine.compress, given, current_tokens=tokens, focus_topic=focus)
        if self._flush_memory and returned != given:
            # Now it is known that turns will leave the context, and they are still here.
            await self._flush_memory(live)
        costs = [call.usage.cost_usd for call in calls if call.usage.cost_usd is not None]
        seconds = time.perf_counter() - began
        return _Draft(session_id, given, returned, seconds, sum(costs) if costs else None)

    async def _models_beside(self, live: LiveContext) -> auxiliary_client.Resolver:
        return self._auxiliary(await self.seats.models.of(live.conversation))

    async def _with_fork(self, live: LiveContext) -> auxiliary_client.Resolver:
        """The tools are asked for before the engine begins: while it is at work it cannot name its own."""
        resolver = await self._models_beside(live)
        if self.request_now is None:
            return resolver
        request_now = await self.request_now(live)

        def resolve(task: str, model: str | None) -> LLMClient:
            found = resolver(task, model)
            return Fork(found, request_now()) if task == FORK_TASK else found

        return resolve

    async def _publish(
        self, live: LiveContext, seat: EngineSeat, draft: _Draft, attempt: Attempt, focus: str | None
    ) -> Outcome:
        """One transaction. If somebody else was quicker, theirs stands."""
        plan = plan_from(draft.given, draft.returned, live.history)
        if plan is None:
            outcome = _without_change(seat)
            attempt.result = "failed" if outcome.trouble else "nothing"
            return outcome
        plan = with_state(plan, await carried_state(self._store, live))
        record = _record(live, seat, draft, attempt.trigger, focus)
        split = Split(
            live.session.id,
            _REASONS.get(attempt.trigger, "compression"),
            plan.context,
            plan.system_prompt,
            engine=seat.engine.name,
            model=seat.model,
            compaction=record,
        )
        try:
            child = await self._store.split(split)
        except HeadMoved:
            attempt.result = "lost"
            log.info("compaction.lost", session=live.session.id)
            live.conversation = await self._store.conversation(live.conversation.id)
            live.session = await self._store.session(live.conversation.live_session_id)
            live.history = await self._store.history(live.session.id)
            return Outcome(None, "The conversation had moved on already.")
        attempt.result = record.outcome
        live.session, live.history = child, await self._store.history(child.id)
        await self.seats.moved(live)
        event = Compacted(
            child.id,
            record.messages_before,
            record.messages_after,
            record.tokens_before,
            record.tokens_after,
        )
        if record.outcome != "stand_in":
            return Outcome(event, _numbers(event))
        why = getattr(getattr(seat.engine, "last_outcome", None), "detail", "")
        return Outcome(event, f"{_numbers(event)}. {why}", trouble=True)


def _fitted(draft: _Draft, live: LiveContext) -> _Draft | None:
    """The draft with what was said since then behind it; None if the conversation went another way."""
    if draft.session_id != live.session.id or draft.returned == draft.given:
        return None
    now, taken = for_engine(live.system_prompt, live.history), len(draft.given)
    if now[:taken] != draft.given:
        return None
    return replace(draft, given=now, returned=[*draft.returned, *now[taken:]])


def _record(
    live: LiveContext, seat: EngineSeat, draft: _Draft, trigger: Trigger, focus: str | None
) -> Compaction:
    """Before: what the provider reported, if it did. After: the same, made smaller as the estimate says."""
    before, after = map(estimate_messages_tokens_rough, (draft.given, draft.returned))
    reported = max(live.session.prompt_tokens or 0, before)
    outcome = getattr(seat.engine, "last_outcome", None)
    return Compaction(
        trigger,
        seat.engine.name,
        messages_before=len(draft.given) - 1,
        messages_after=sum(message.get("role") != "system" for message in draft.returned),
        tokens_before=reported,
        tokens_after=round(reported * after / max(before, 1)),
        focus=focus,
        seconds=draft.seconds,
        cost_usd=draft.cost_usd,
        outcome=getattr(outcome, "kind", "ok"),
    )


def _without_change(seat: EngineSeat) -> Outcome:
    outcome = getattr(seat.engine, "last_outcome", None)
    if outcome is not None and outcome.kind == "failed":
        return Outcome(None, outcome.detail, trouble=True)
    return Outcome(None, NOTHING_TO_DO)


def _numbers(event: Compacted) -> str:
    return in_numbers(event.messages_before, event.messages_after, event.tokens_before, event.tokens_after)
