"""Keeps a conversation inside the window while it goes on: decides when to compact, and what the person is told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog

from agent.compaction import Compactor, Outcome, Trigger
from agent.context_engine import ContextEngine
from agent.context_plan import LiveContext, for_engine, is_request
from agent.engine_seat import EngineSeat
from agent.errors import EngineFailed
from agent.events import Notice, TurnEvent
from agent.llm import Usage
from agent.messages import ChatDict, Message, as_chat
from agent.tokens import estimate_messages_tokens_rough, estimate_text_tokens
from agent.tool import Tool, ToolContext

log = structlog.get_logger(__name__)

_ENGINE_TOOL_SECONDS = 60.0
_HINT_SECONDS = 5.0
_MOST_HINT_TOKENS = 1_000


class ContextKeeper:
    """What the loop asks around each turn and each model call."""

    def __init__(self, compactor: Compactor, *, enabled: bool) -> None:
        self.compactor = compactor
        self.enabled = enabled
        """Whether anything is compacted without being asked for."""
        self._told: set[str] = set()
        """Conversations whose person knows that compaction is in trouble."""

    async def before_turn(self, live: LiveContext) -> list[TurnEvent]:
        """Room for the turn, and then what the engine has to say about the message."""
        told = await self._in_bounds(live)
        if hint := await self._hint(live):
            await self.compactor.add_note(live, hint)
        return told

    async def _in_bounds(self, live: LiveContext) -> list[TurnEvent]:
        """What was prepared between the turns is swapped in; at the threshold itself the turn has to wait."""
        if not self.enabled:
            return []
        try:
            if outcome := await self.compactor.swap_in(live):
                return self._told_of(live, outcome)
            tokens = tokens_in(live)
            if await self.compactor.is_due(live, tokens) or await self.compactor.is_due_by_the_messages(live):
                return await self.compact(live, "loop", tokens)
        except EngineFailed as error:
            return await self._engine_trouble(live, error)
        return []

    async def _hint(self, live: LiveContext) -> str | None:
        """Only for a message that nobody has begun to answer, and only from an engine that is free and quick: it is
        an extra that nobody waits for."""
        if not live.history or not is_request(live.history[-1]):
            return None
        try:
            seat = await self.compactor.seats.of(live)
            if seat.busy or type(seat.engine).hint is ContextEngine.hint:
                return None
            async with asyncio.timeout(_HINT_SECONDS):
                given = for_engine(live.system_prompt, live.history)
                hint: object = await seat.call(seat.engine.hint, given)
        except (EngineFailed, TimeoutError) as error:
            await asyncio.to_thread(
                log.warning, "engine.hint_failed", session=live.session.id, exc_info=error.__cause__ or error
            )
            return None
        return _usable_hint(hint, live)

    async def after_call(self, live: LiveContext, usage: Usage) -> None:
        """A provider that reports nothing is not taken at its word."""
        try:
            seat = await self.compactor.seats.of(live)
            await seat.report(usage if usage.prompt_tokens else replace(usage, prompt_tokens=tokens_in(live)))
        except EngineFailed as error:
            await self._engine_trouble(live, error)

    async def make_room(self, live: LiveContext, usage: Usage, added: Sequence[Message]) -> list[TurnEvent]:
        """Before the next call of the same turn: what was reported, and what came since, must fit."""
        tokens = _next_prompt(live, usage, added)
        try:
            if self.enabled and await self.compactor.is_due(live, tokens):
                return await self.compact(live, "loop", tokens)
        except EngineFailed as error:
            return await self._engine_trouble(live, error)
        return []

    async def after_overflow(self, live: LiveContext) -> list[TurnEvent] | None:
        """The provider says that it does not fit. None if nothing could be done about it."""
        if not self.enabled:
            return None
        outcome = await self.compactor.compact(live, "overflow")
        return self._told_of(live, outcome) if outcome.compacted else None

    async def after_turn(self, live: LiveContext, usage: Usage) -> None:
        """Near the threshold, a compaction is prepared while nobody waits."""
        if not self.enabled:
            return
        try:
            seat = await self.compactor.seats.of(live)
        except EngineFailed as error:
            await self._engine_trouble(live, error)
        else:
            self.compactor.prepare(live, seat, _next_prompt(live, usage, ()))

    async def tools(self, live: LiveContext) -> list[Tool]:
        """The engine's own tools. They need no registration."""
        try:
            seat = await self.compactor.seats.of(live)
            schemas = await seat.tool_schemas()
        except EngineFailed as error:
            await self._engine_trouble(live, error)
            return []
        return [_engine_tool(self.compactor, seat, live, schema) for schema in schemas]

    async def _engine_trouble(self, live: LiveContext, error: EngineFailed) -> list[TurnEvent]:
        """An engine is a plugin: its bug must not cost the person a turn."""
        await asyncio.to_thread(
            log.warning, "engine.failed", session=live.session.id, exc_info=error.__cause__
        )
        return self._told_of(live, Outcome(None, str(error), trouble=True))

    async def compact(
        self, live: LiveContext, trigger: Trigger, tokens: int | None = None
    ) -> list[TurnEvent]:
        return self._told_of(live, await self.compactor.compact(live, trigger, tokens=tokens))

    def _told_of(self, live: LiveContext, outcome: Outcome) -> list[TurnEvent]:
        """Trouble is told once, until it is over."""
        conversation_id = live.conversation.id
        events: list[TurnEvent] = [outcome.compacted] if outcome.compacted else []
        if not outcome.trouble:
            self._told.discard(conversation_id)
        elif conversation_id not in self._told:
            self._told.add(conversation_id)
            events.append(Notice(outcome.detail))
        return events


def _usable_hint(hint: object, live: LiveContext) -> str | None:
    if not isinstance(hint, str) or not hint.strip():
        return None
    if (tokens := estimate_text_tokens(hint)) > _MOST_HINT_TOKENS:
        log.warning("engine.hint_too_long", session=live.session.id, tokens=tokens, most=_MOST_HINT_TOKENS)
        return None
    return hint


def tokens_in(live: LiveContext) -> int:
    """What the next prompt will hold: what was reported for the last call, and an estimate of what came since."""
    if not live.session.prompt_tokens:
        return estimated_tokens(live)
    spoken = [index for index, message in enumerate(live.history) if message.role == "assistant"]
    since = live.history[spoken[-1] :] if spoken else live.history
    return live.session.prompt_tokens + estimate_messages_tokens_rough(map(as_chat, since))


def _next_prompt(live: LiveContext, usage: Usage, added: Sequence[Message]) -> int:
    if not usage.prompt_tokens:
        return estimated_tokens(live)
    return usage.total_tokens + estimate_messages_tokens_rough(map(as_chat, added))


def estimated_tokens(live: LiveContext) -> int:
    """The whole context, without the tool definitions that go with it."""
    system = {"role": "system", "content": live.system_prompt}
    return estimate_messages_tokens_rough([system, *map(as_chat, live.history)])


def _engine_tool(compactor: Compactor, seat: EngineSeat, live: LiveContext, schema: ChatDict) -> Tool:
    name = str(schema["name"])

    async def call(ctx: ToolContext, **arguments: Any) -> str:
        messages = for_engine(live.system_prompt, live.history)
        async with compactor.models_for_tool(live):
            return await seat.call(seat.engine.handle_tool_call, name, arguments, messages=messages)

    return Tool(
        name=name,
        description=str(schema.get("description", "")),
        parameters=_parameters(schema),
        timeout=_ENGINE_TOOL_SECONDS,
        dangerous=False,
        effects=False,
        arguments=None,
        function=call,
        # It repeats what was said, and not only the person has said it: tools and web pages have, too.
        outside=True,
    )


def _parameters(schema: Mapping[str, Any]) -> ChatDict:
    return dict(schema.get("parameters") or {"type": "object", "properties": {}})
