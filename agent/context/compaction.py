"""Compaction: the only caller of an engine's `compress()` and of the split that follows.

Hygiene, the loop and `/compress` decide when; only this module knows how. Prepare, then publish: no transaction is
open while a model is asked, and the store refuses the split if the conversation moved on meanwhile.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Literal

import structlog

from agent import auxiliary_client
from agent.auxiliary_client import models_for_engine
from agent.compression.outcome import NOTHING_TO_DO, in_numbers
from agent.context.child_session import carried_state, child_session_from, for_engine, with_state
from agent.context.compaction_pace import NEARLY_FULL, CompactionPace, SummaryTimeout, advice
from agent.context.drafts import Draft, Drafts
from agent.context.engine_pool import EnginePool, Pause
from agent.context.engine_runner import EngineRunner
from agent.context.live import LiveContext, is_plausible
from agent.errors import EngineFailed, HeadMoved, InvalidCompaction
from agent.events import Compacted
from agent.llm import LLMClient
from agent.llm.selection import ModelInUse
from agent.store import Compaction, Conversation, Split, SplitReason
from agent.tokens import estimate_messages_tokens_rough

log = structlog.get_logger(__name__)

Trigger = Literal["loop", "overflow", "background", "hygiene", "command"]
_REASONS: dict[Trigger, SplitReason] = {"hygiene": "hygiene", "command": "command"}

_AUTOMATIC: tuple[Trigger, ...] = ("loop", "overflow", "hygiene")
"""Automatic compactions that a turn waits for."""

_PAUSED = "The context engine failed a moment ago, so nothing was compressed; it is tried again later."


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a compaction. Without `compacted`, nothing was changed."""

    compacted: Compacted | None
    detail: str
    """A sentence for the person."""
    trouble: bool = False
    """Something failed that the person should be told."""
    advice: str = ""
    """How to need fewer compactions."""


@dataclass(slots=True)
class Attempt:
    """A running compaction, for metrics."""

    trigger: Trigger
    result: str = "failed"
    """In the end: `ok`, `stand_in`, `nothing`, `lost` or `failed`, or what the engine calls it."""
    seconds: float = 0.0
    """Time that the engine took, perhaps earlier in the background."""


Watch = Callable[[Attempt], AbstractContextManager[object]]
"""Returns a context manager that wraps every compaction."""


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The engine of a conversation and the tokens at which it acts."""

    name: str
    threshold_tokens: int
    compacts_at: int
    prepared_from: int


class Compactor:
    """Makes child sessions of conversations that have grown too large."""

    def __init__(
        self,
        engines: EnginePool,
        *,
        auxiliary: Callable[[LLMClient], auxiliary_client.Resolver],
        background_at: float,
        flush_memory: Callable[[LiveContext], Awaitable[None]] | None = None,
        watch: Watch = lambda attempt: nullcontext(),
        summary_timeout: SummaryTimeout | None = None,
    ) -> None:
        self.engines = engines
        self._auxiliary = auxiliary
        self.background_at = background_at
        """The share of the threshold at which a compaction is prepared in the background."""
        self._flush_memory = flush_memory
        self._watch = watch
        self.drafts = Drafts(engines.peek)
        self._paces: defaultdict[str, CompactionPace] = defaultdict(CompactionPace)
        self._pauses: dict[str, Pause] = {}
        """By conversation: the engine raised, hung or returned nonsense, so it is not asked again for a while."""
        self._summary_timeout = summary_timeout or SummaryTimeout()

    async def is_due(self, live: LiveContext, runner: EngineRunner, tokens: int) -> bool:
        """Return whether to compact now: at the threshold, or later if compactions came too often."""
        threshold = runner.state.threshold_tokens
        if threshold < (due_from := await self.due_from(live.conversation, runner)) and tokens < due_from:
            return False
        if self.drafts.of(live):
            # The engine was asked when the draft was begun.
            return tokens >= threshold
        if runner.busy:
            return 0 < threshold <= tokens
        return await runner.should_compress(tokens)

    async def due_from(self, conversation: Conversation, runner: EngineRunner) -> int:
        """Return the engine's threshold, or a nearly full window if compactions came too often."""
        threshold = runner.state.threshold_tokens
        if not self._paces[conversation.id].is_wide:
            return threshold
        llm = await self.engines.models.in_use(conversation)
        return max(threshold, round(NEARLY_FULL * llm.context_length))

    async def status_of(self, conversation: Conversation, runner: EngineRunner) -> EngineStatus:
        compacts_at = await self.due_from(conversation, runner)
        prepared_from = math.ceil(compacts_at * self.background_at)
        return EngineStatus(runner.name, runner.state.threshold_tokens, compacts_at, prepared_from)

    async def answered(self, live: LiveContext, prompt_tokens: int) -> ModelInUse:
        """Count an answer, check whether the last compaction helped, and return the model that answered."""
        llm, pace = await self.engines.models.in_use(live.conversation), self.pace_of(live)
        if live.session.reason in (None, "reset"):
            pace.begin()
        pace.answered(prompt_tokens, llm.context_length)
        return llm

    def pace_of(self, live: LiveContext) -> CompactionPace:
        return self._paces[live.conversation.id]

    async def is_due_by_the_messages(self, live: LiveContext, runner: EngineRunner, tokens: int) -> bool:
        """Ask an engine that decides by the messages alone. It also has to wait if compactions came too often."""
        if runner.busy:
            return False
        is_wanted = await runner.should_compress_preflight(for_engine(live.system_prompt, live.history))
        if not is_wanted or not self.pace_of(live).is_wide:
            return is_wanted
        return tokens >= await self.due_from(live.conversation, runner)

    async def compact(
        self, live: LiveContext, trigger: Trigger, *, focus: str | None = None, tokens: int | None = None
    ) -> Outcome:
        """Split the session if that makes it smaller; `live` then points to the child session."""
        if trigger != "command" and not self.drafts.of(live) and self._is_paused(live):
            return Outcome(None, _PAUSED, trouble=True)
        outcome = await self._attempt(live, trigger, focus, tokens)
        pace = self.pace_of(live)
        if trigger == "hygiene" and not outcome.compacted:
            pace.in_vain.strike()
        if outcome.compacted and trigger in _AUTOMATIC and pace.compacted():
            runner = self.engines.peek(live.conversation.id)
            llm = await self.engines.models.in_use(live.conversation)
            return replace(outcome, advice=advice(runner.name if runner else "", llm.context_length))
        return outcome

    async def _attempt(
        self, live: LiveContext, trigger: Trigger, focus: str | None, tokens: int | None
    ) -> Outcome:
        attempt = Attempt(trigger)
        try:
            with self._watch(attempt):
                runner, preparing = await self.engines.get(live), self.drafts.of(live)
                was_ready = preparing is not None and preparing.done is not None
                draft = await self._prepared(live, runner, trigger, focus)
                if draft is None:
                    deadline = auxiliary_client.Deadline(await self._seconds(live, trigger))
                    draft = await self._compress(runner, live, focus, tokens, deadline)
                elif was_ready and trigger == "loop":
                    attempt.trigger = "background"
                attempt.seconds = draft.seconds
                return await self._publish(live, runner, draft, attempt, focus)
        except (EngineFailed, InvalidCompaction) as error:
            log.warning("compaction.failed", session=live.session.id, reason=error.detail)
            self._pauses.setdefault(live.conversation.id, Pause()).begin(live)
            if isinstance(error, InvalidCompaction):
                return Outcome(None, str(error), trouble=True)
            # The pool tells the person about other members of the engine.
            return Outcome(None, f"{error} Nothing was compressed.", trouble=error.method == "compress")

    def _is_paused(self, live: LiveContext) -> bool:
        pause = self._pauses.get(live.conversation.id)
        return pause is not None and pause.holds(live)

    async def prepare(self, live: LiveContext, runner: EngineRunner, tokens: int) -> None:
        """Begin a compaction in the background, to be published at the threshold."""
        if self._is_paused(live):
            return
        # A summary that failed is retried in the background.
        redo = runner.state.has_fallback_summary
        if not redo and tokens < await self.due_from(live.conversation, runner) * self.background_at:
            self.drafts.forget_size(live)
        elif self.drafts.has_grown(live, tokens) and not self.drafts.of(live):
            deadline, now = auxiliary_client.Deadline(), replace(live, history=list(live.history))
            work = self._compress_if_wanted(runner, now, tokens, deadline, redo=redo)
            self.drafts.begin(live, tokens, work, deadline)

    async def swap_in(self, live: LiveContext) -> Outcome | None:
        """Publish a summary that replaces an extract, if it is ready. Other drafts wait for the threshold."""
        preparing = self.drafts.of(live)
        if preparing and (preparing.has_failed or (preparing.done and preparing.done.redo)):
            return await self.compact(live, "background")
        return None

    @asynccontextmanager
    async def models_for_tool(self, live: LiveContext) -> AsyncIterator[None]:
        """Let a tool of the engine ask the models that write its summaries."""
        resolver = await self._models_for(live.conversation)
        async with models_for_engine(live.store, live.session.id, resolver, purpose="engine_tool"):
            yield

    async def close(self) -> None:
        await self.drafts.close()

    async def _seconds(self, live: LiveContext, trigger: Trigger) -> float:
        return self._summary_timeout.seconds(trigger, (await self.summariser(live.conversation)).model)

    async def summariser(self, conversation: Conversation) -> LLMClient:
        """Return the model that writes the summaries of the conversation."""
        return (await self._models_for(conversation))("compression", None)

    async def _prepared(
        self, live: LiveContext, runner: EngineRunner, trigger: Trigger, focus: str | None
    ) -> Draft | None:
        """Return the prepared draft if it fits, is small enough and has no other focus. Waits for an engine at work."""
        draft = await self.drafts.take(live, 0.0 if focus else await self._seconds(live, trigger))
        fitted = draft.fitted(live) if draft and focus is None else None
        if fitted is None:
            return None
        left = fitted.tokens_after + live.tools_tokens
        # So much was said since that it would have to be done again at once.
        return None if 0 < await self.due_from(live.conversation, runner) <= left else fitted

    async def _compress_if_wanted(
        self,
        runner: EngineRunner,
        live: LiveContext,
        tokens: int,
        deadline: auxiliary_client.Deadline,
        *,
        redo: bool,
    ) -> Draft:
        """Ask the engine as if the threshold were reached, so that an engine that holds back is respected."""
        at_threshold = max(tokens, runner.state.threshold_tokens)
        if await runner.should_compress(at_threshold):
            draft = await self._compress(runner, live, None, tokens, deadline, redo=redo)
            # An extract can be written at any time, so there is no point in preparing one.
            if deadline.is_limited or draft.kind != "stand_in":
                return draft
        return Draft(live.session.id, for_engine(live.system_prompt, live.history))

    async def _compress(
        self,
        runner: EngineRunner,
        live: LiveContext,
        focus: str | None,
        tokens: int | None,
        deadline: auxiliary_client.Deadline,
        *,
        redo: bool = False,
    ) -> Draft:
        session_id, given = live.session.id, for_engine(live.system_prompt, live.history)
        resolver = await self._models_for(live.conversation)
        summariser = resolver("compression", None)
        # The request names the engine's tools, which the engine cannot name while it is at work.
        prefix = await live.request_now(live) if live.request_now else None
        began = time.perf_counter()
        async with models_for_engine(
            live.store, session_id, resolver, purpose="compression", deadline=deadline, prefix=prefix
        ) as calls:
            returned = await runner.compress(given, tokens=tokens, focus=focus)
        outcome = runner.state.last_outcome
        self._summary_timeout.learn(summariser.model, deadline, has_answered=bool(calls))
        child = child_session_from(given, returned, live.history)
        before, after = map(estimate_messages_tokens_rough, (given, returned))
        if child and after >= before and not redo:
            raise InvalidCompaction(f"It is not smaller: about {before:,} tokens before, {after:,} after.")
        if child and self._flush_memory:
            # Turns will leave the context, and they are still here.
            with suppress(TimeoutError):
                async with asyncio.timeout(None if deadline.left == math.inf else deadline.left):
                    await self._flush_memory(live)
        costs = [call.usage.cost_usd for call in calls if call.usage.cost_usd is not None]
        return Draft(
            session_id,
            given,
            child,
            tokens_before=before,
            tokens_after=after,
            outcome=outcome,
            seconds=time.perf_counter() - began,
            cost_usd=sum(costs) if costs else None,
            redo=redo,
        )

    async def _models_for(self, conversation: Conversation) -> auxiliary_client.Resolver:
        return self._auxiliary(await self.engines.models.of(conversation))

    async def _publish(
        self, live: LiveContext, runner: EngineRunner, draft: Draft, attempt: Attempt, focus: str | None
    ) -> Outcome:
        """Store the child session in one transaction, unless the conversation has moved on meanwhile."""
        if draft.child is None:
            has_failed = draft.kind == "failed"
            attempt.result = "failed" if has_failed else "nothing"
            return Outcome(None, draft.detail if has_failed else NOTHING_TO_DO, trouble=has_failed)
        child_plan = with_state(draft.child, await carried_state(live.store, live))
        record = _record(live, runner, draft, attempt.trigger, focus)
        split = Split(
            live.session.id,
            _REASONS.get(attempt.trigger, "compression"),
            child_plan.context,
            child_plan.system_prompt,
            engine=runner.name,
            model=runner.llm.model,
            compaction=record,
        )
        try:
            child = await live.store.split(split)
        except HeadMoved:
            attempt.result = "lost"
            log.info("compaction.lost", session=live.session.id)
            await live.reload()
            return Outcome(None, "The conversation had moved on already.")
        attempt.result = record.outcome
        self._pauses.pop(live.conversation.id, None)
        self.drafts.forget_size(live)
        await live.enter(child)
        await self.engines.on_split(live)
        event = Compacted(
            child.id,
            record.messages_before,
            record.messages_after,
            record.tokens_before,
            record.tokens_after,
        )
        if record.outcome != "stand_in":
            return Outcome(event, _numbers(event))
        return Outcome(event, f"{_numbers(event)}. {draft.detail}", trouble=True)


def _record(
    live: LiveContext, runner: EngineRunner, draft: Draft, trigger: Trigger, focus: str | None
) -> Compaction:
    """Count tokens as the provider reported them before, and scaled by the estimates after."""
    before, after = draft.tokens_before, draft.tokens_after
    reported = live.session.prompt_tokens or 0
    reported = max(reported if is_plausible(reported, before + live.tools_tokens) else 0, before)
    return Compaction(
        trigger,
        runner.name,
        messages_before=len(draft.given) - 1,
        messages_after=len(draft.child.context) if draft.child else 0,
        tokens_before=reported,
        tokens_after=round(reported * after / max(before, 1)),
        focus=focus,
        seconds=draft.seconds,
        cost_usd=draft.cost_usd,
        outcome=draft.kind,
    )


def _numbers(event: Compacted) -> str:
    return in_numbers(event.messages_before, event.messages_after, event.tokens_before, event.tokens_after)
