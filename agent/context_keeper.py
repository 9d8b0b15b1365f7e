"""Keeps a conversation inside the window while it goes on: decides when to compact, and what the person is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.compaction import Compactor, Outcome, Trigger
from agent.context_plan import LiveContext, for_engine
from agent.engine_seat import EngineSeat
from agent.events import Notice, TurnEvent
from agent.llm import Usage
from agent.messages import ChatDict, Message, as_chat
from agent.tokens import estimate_messages_tokens_rough
from agent.tool import Tool, ToolContext

_ENGINE_TOOL_SECONDS = 60.0


class ContextKeeper:
    """What the loop asks around each turn and each model call."""

    def __init__(self, compactor: Compactor, *, enabled: bool) -> None:
        self.compactor = compactor
        self.enabled = enabled
        """Whether anything is compacted without being asked for."""
        self._told: set[str] = set()
        """Conversations whose person knows that compaction is in trouble."""

    async def before_turn(self, live: LiveContext) -> list[TurnEvent]:
        """What was prepared between the turns is swapped in."""
        if not self.enabled:
            return []
        if outcome := await self.compactor.swap_in(live):
            return self._told_of(live, outcome)
        if await self.compactor.is_due_before_the_call(live):
            return await self.compact(live, "loop")
        return []

    async def after_call(self, live: LiveContext, usage: Usage) -> None:
        seat = await self.compactor.seats.of(live)
        await seat.report(usage)

    async def make_room(self, live: LiveContext, usage: Usage, added: Sequence[Message]) -> list[TurnEvent]:
        """Before the next call of the same turn: what was reported, and what came since, must fit."""
        tokens = usage.total_tokens + estimate_messages_tokens_rough(map(as_chat, added))
        if self.enabled and await self.compactor.is_due(live, tokens):
            return await self.compact(live, "loop", tokens)
        return []

    async def after_overflow(self, live: LiveContext) -> list[TurnEvent] | None:
        """The provider says that it does not fit. None if nothing could be done about it."""
        if not self.enabled:
            return None
        outcome = await self.compactor.compact(live, "overflow")
        return self._told_of(live, outcome) if outcome.compacted else None

    async def after_turn(self, live: LiveContext, usage: Usage) -> None:
        """Near the threshold, a compaction is prepared while nobody waits."""
        if self.enabled:
            seat = await self.compactor.seats.of(live)
            self.compactor.prepare(live, seat, usage.total_tokens)

    async def tools(self, live: LiveContext) -> list[Tool]:
        """The engine's own tools. They need no registration."""
        seat = await self.compactor.seats.of(live)
        schemas = await seat.tool_schemas()
        return [_engine_tool(seat, live, schema) for schema in schemas]

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


def _engine_tool(seat: EngineSeat, live: LiveContext, schema: ChatDict) -> Tool:
    name = str(schema["name"])

    async def call(ctx: ToolContext, **arguments: Any) -> str:
        messages = for_engine(live.system_prompt, live.history)
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
    )


def _parameters(schema: Mapping[str, Any]) -> ChatDict:
    return dict(schema.get("parameters") or {"type": "object", "properties": {}})
