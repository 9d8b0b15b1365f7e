"""Drafts of compactions: what an engine prepared in the background for use at the threshold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

import structlog

from agent.auxiliary_client import Deadline
from agent.compression.outcome import CompressionOutcome
from agent.context.child_session import ChildSession, for_engine
from agent.context.live import LiveContext
from agent.errors import EngineFailed, HermesError, InvalidCompaction
from agent.messages import MESSAGE_ID, ChatDict
from agent.tokens import estimate_messages_tokens_rough

log = structlog.get_logger(__name__)

_MIN_GROWTH = 1.1
_MAX_DRAFTS = 64


@dataclass(frozen=True, slots=True)
class Draft:
    """An engine's result for a session that is not published yet."""

    session_id: str
    given: list[ChatDict]
    child: ChildSession | None = None
    """None if the engine changed nothing."""
    tokens_before: int = 0
    """Estimates."""
    tokens_after: int = 0
    outcome: CompressionOutcome | None = None
    seconds: float = 0.0
    cost_usd: float | None = None
    redo: bool = False
    """It replaces an extract by a summary, which need not wait for the threshold."""

    @property
    def kind(self) -> str:
        return self.outcome.kind if self.outcome else "ok"

    @property
    def detail(self) -> str:
        return self.outcome.detail if self.outcome else ""

    def fitted(self, live: LiveContext) -> Draft | None:
        """Return the draft followed by the messages since; None if it changes nothing or is of another branch."""
        now, taken = for_engine(live.system_prompt, live.history), len(self.given)
        if self.child is None or self.session_id != live.session.id or now[:taken] != self.given:
            return None
        since = now[taken:]
        tokens = estimate_messages_tokens_rough(since)
        return replace(
            self,
            given=now,
            child=replace(self.child, context=[*self.child.context, *(each[MESSAGE_ID] for each in since)]),
            tokens_before=self.tokens_before + tokens,
            tokens_after=self.tokens_after + tokens,
        )


@dataclass(frozen=True, slots=True)
class Preparing:
    """A draft that an engine is working on, or has finished."""

    task: asyncio.Task[Draft]
    engine: object
    deadline: Deadline

    @property
    def has_failed(self) -> bool:
        return self.task.done() and not self.task.cancelled() and self.task.exception() is not None

    @property
    def done(self) -> Draft | None:
        is_there = self.task.done() and not self.task.cancelled() and not self.task.exception()
        return self.task.result() if is_there else None


class Drafts:
    """One draft at most for each conversation."""

    def __init__(self, engine_of: Callable[[str], object]) -> None:
        """`engine_of` returns the current engine of a conversation."""
        self._engine_of = engine_of
        self._drafts: dict[str, Preparing] = {}
        self._prepared_at: dict[str, int] = {}
        """Tokens by conversation when a draft was last begun."""

    def has_grown(self, live: LiveContext, tokens: int) -> bool:
        """Return whether the conversation has grown enough since the last draft to begin another one."""
        return tokens >= self._prepared_at.get(live.conversation.id, 0) * _MIN_GROWTH

    def forget_size(self, live: LiveContext) -> None:
        self._prepared_at.pop(live.conversation.id, None)

    def begin(
        self, live: LiveContext, tokens: int, work: Coroutine[Any, Any, Draft], deadline: Deadline
    ) -> None:
        for conversation_id in list(self._drafts):
            self._get(conversation_id)
        engine = self._engine_of(live.conversation.id)
        self._prepared_at[live.conversation.id] = tokens
        self._drafts[live.conversation.id] = Preparing(asyncio.create_task(work), engine, deadline)
        finished = [key for key, preparing in self._drafts.items() if preparing.task.done()]
        for key in finished[: max(0, len(self._drafts) - _MAX_DRAFTS)]:
            del self._drafts[key]

    def of(self, live: LiveContext) -> Preparing | None:
        """Return the draft of the conversation, and drop one that does not fit any more."""
        preparing = self._get(live.conversation.id)
        if preparing is None or not preparing.task.done() or preparing.has_failed:
            return preparing
        if preparing.done and preparing.done.fitted(live):
            return preparing
        del self._drafts[live.conversation.id]
        return None

    async def take(self, live: LiveContext, seconds: float) -> Draft | None:
        """Wait for the draft and limit its models to `seconds` from its start. Raises only failures of the engine."""
        preparing = self._get(live.conversation.id)
        if preparing is None:
            return None
        preparing.deadline.bring_forward(seconds)
        try:
            return await asyncio.shield(preparing.task)
        except (EngineFailed, InvalidCompaction):
            raise
        except HermesError as error:
            log.info("compaction.draft_lost", conversation=live.conversation.id, error=type(error).__name__)
            return None
        finally:
            if preparing.task.done():
                self._drafts.pop(live.conversation.id, None)
            if preparing.deadline.missed:
                self.forget_size(live)  # the summary is still to be written

    def _get(self, conversation_id: str) -> Preparing | None:
        """Return the draft, and drop one of an engine that was replaced."""
        preparing = self._drafts.get(conversation_id)
        if preparing is None or preparing.engine is self._engine_of(conversation_id):
            return preparing
        preparing.task.cancel()
        del self._drafts[conversation_id]
        self._prepared_at.pop(conversation_id, None)
        return None

    async def settled(self) -> None:
        """Wait until no draft is being worked on."""
        if tasks := [preparing.task for preparing in self._drafts.values()]:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        tasks = [preparing.task for preparing in self._drafts.values()]
        self._drafts.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
