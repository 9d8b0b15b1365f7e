"""Automatic compaction: decides when to compact, also after a model refused the prompt, and what the person is told."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from agent.context.child_session import for_engine, is_request
from agent.context.compaction import Compactor, Outcome, Trigger
from agent.context.engine_runner import HINT_SECONDS, EngineRunner
from agent.context.live import LiveContext, believed_usage, next_prompt_tokens
from agent.errors import BadRequest, ContextOverflow, EngineFailed, ToolError
from agent.events import Notice, TurnEvent
from agent.llm import ChatRequest, Usage
from agent.llm.guards import estimated_size
from agent.llm.selection import ModelSelector
from agent.messages import ChatDict, Message
from agent.store import LearnedWindow
from agent.tokens import estimate_text_tokens
from agent.tool import Tool, ToolContext

log = structlog.get_logger(__name__)

_ENGINE_TOOL_SECONDS = 60.0
_MOST_HINT_TOKENS = 1_000


class AutoCompaction:
    """Decides around each turn and model call whether to compact, and what to tell the person."""

    def __init__(self, compactor: Compactor, *, enabled: bool) -> None:
        self.compactor = compactor
        self._engines = compactor.engines
        self.enabled = enabled
        """Compact automatically. `/compress` works either way."""

    async def before_turn(self, live: LiveContext) -> list[TurnEvent]:
        """Find the engine of the turn, compact if needed, and add the engine's hint about the message.

        The rest of the turn uses this engine while it works (`EnginePool.running`). If the engine hangs or is discarded
        meanwhile, the turn continues without one; the next compaction or turn starts another.
        """
        with suppress(EngineFailed):
            await self._engines.get(live)
        told = await self._in_bounds(live)
        if hint := await self._hint(live):
            await live.append(Message("user", hint, kind="note"))
        return [*told, *self.notices(live)]

    async def _in_bounds(self, live: LiveContext) -> list[TurnEvent]:
        """Compact at the threshold, with the summary that was prepared before if there is one."""
        if not self.enabled:
            return []
        if outcome := await self.compactor.swap_in(live):
            return self._told_of(live, outcome)
        tokens = next_prompt_tokens(live)
        with suppress(EngineFailed):
            runner = self._engines.running(live)
            if runner and (
                await self.compactor.is_due(live, runner, tokens)
                or await self.compactor.is_due_by_the_messages(live, runner, tokens)
            ):
                return await self.compact(live, "loop", tokens)
        return []

    async def _hint(self, live: LiveContext) -> str | None:
        """Return the engine's hint for a new message, if the engine is free and quick."""
        runner = self._engines.running(live)
        if runner is None or runner.busy or not runner.has_hint:
            return None
        if not live.history or not is_request(live.history[-1]):
            return None
        try:
            async with asyncio.timeout(HINT_SECONDS):
                # First, because the turn needs them next, and a hint that takes long keeps the engine at work.
                await runner.tool_schemas()
                hint = await runner.hint(for_engine(live.system_prompt, live.history))
        except EngineFailed:
            return None
        except TimeoutError:
            log.warning("engine.hint_too_late", session=live.session.id, seconds=HINT_SECONDS)
            return None
        if hint and (tokens := estimate_text_tokens(hint)) > _MOST_HINT_TOKENS:
            log.warning(
                "engine.hint_too_long", session=live.session.id, tokens=tokens, most=_MOST_HINT_TOKENS
            )
            return None
        return hint if hint and hint.strip() else None

    async def after_call(self, live: LiveContext, usage: Usage) -> None:
        """Tell the engine the model that answered, and the usage. An impossible report is replaced by the estimate."""
        usage = believed_usage(live, usage)
        llm = await self.compactor.answered(live, usage.prompt_tokens)
        if runner := self._engines.running(live):
            await runner.fit(llm)
            with suppress(EngineFailed):
                await runner.report(usage)

    async def make_room(self, live: LiveContext, usage: Usage) -> list[TurnEvent]:
        """Compact before the next model call of the turn if the prompt has grown too large."""
        tokens = next_prompt_tokens(live, usage.prompt_tokens)
        runner = self._engines.running(live)
        with suppress(EngineFailed):
            if self.enabled and runner and await self.compactor.is_due(live, runner, tokens):
                return await self.compact(live, "loop", tokens)
        return self.notices(live)

    async def after_overflow(self, live: LiveContext) -> list[TurnEvent] | None:
        """Compact after the provider refused the prompt as too long. None if that is not possible."""
        if not self.enabled:
            return None
        outcome = await self.compactor.compact(live, "overflow")
        return self._told_of(live, outcome) if outcome.compacted else None

    async def after_turn(self, live: LiveContext, usage: Usage) -> list[TurnEvent]:
        """Prepare a compaction in the background if the threshold is near."""
        if self.enabled and (runner := self._engines.running(live)):
            await self.compactor.prepare(live, runner, next_prompt_tokens(live, usage.prompt_tokens))
        return self.notices(live)

    async def tools(self, live: LiveContext) -> list[Tool]:
        """Return the engine's own tools, which need no registration."""
        if runner := self._engines.running(live):
            with suppress(EngineFailed):
                schemas = await runner.tool_schemas()
                return [_engine_tool(self.compactor, runner, live, schema) for schema in schemas]
        return []

    def notices(self, live: LiveContext) -> list[TurnEvent]:
        """Return what the person has to be told about a failing engine."""
        sentence = self._engines.troubles.untold(live.conversation.id)
        return [Notice(sentence)] if sentence else []

    async def compact(
        self, live: LiveContext, trigger: Trigger, tokens: int | None = None
    ) -> list[TurnEvent]:
        return self._told_of(live, await self.compactor.compact(live, trigger, tokens=tokens))

    async def compact_on_request(self, live: LiveContext, focus: str | None) -> Outcome:
        """Compact for `/compress`. The answer to the command tells the outcome, so no notice has to."""
        outcome = await self.compactor.compact(live, "command", focus=focus)
        troubles, conversation_id = self._engines.troubles, live.conversation.id
        troubles.untold(conversation_id, "compress")
        if outcome.compacted and not outcome.trouble:
            troubles.over(conversation_id, "compress")
        return outcome

    def _told_of(self, live: LiveContext, outcome: Outcome) -> list[TurnEvent]:
        """Return the events of a compaction. A failure is told once until a compaction works again."""
        troubles, conversation_id = self._engines.troubles, live.conversation.id
        if outcome.trouble:
            troubles.note(conversation_id, "compress", outcome.detail)
        else:
            troubles.over(conversation_id, "compress")
        events: list[TurnEvent] = [outcome.compacted] if outcome.compacted else []
        events += self.notices(live)
        if outcome.advice:
            events.append(Notice(outcome.advice, for_admins=True))
        return events


def _engine_tool(compactor: Compactor, runner: EngineRunner, live: LiveContext, schema: ChatDict) -> Tool:
    name = schema["name"]

    async def call(ctx: ToolContext, **arguments: Any) -> str:
        messages = for_engine(live.system_prompt, live.history)
        async with compactor.models_for_tool(live):
            try:
                return await runner.handle_tool_call(name, arguments, messages)
            except EngineFailed:
                raise ToolError("the context engine failed, and the log says why. Try another way.") from None

    return Tool(
        name=name,
        description=schema["description"],
        parameters=schema["parameters"],
        timeout=_ENGINE_TOOL_SECONDS,
        dangerous=False,
        effects=False,
        arguments=None,
        function=call,
        # It repeats what was said, and not only the person has said it: tools and web pages have, too.
        outside=True,
    )


_MAX_COMPACTIONS = 4
_LONG_PROMPT = 3_000
"""Tokens. A shorter prompt is hardly refused for its length."""


@dataclass(slots=True)
class Refusals:
    """The refusals of one model call so far."""

    attempts: int = 0
    learned: LearnedWindow | None = None


class OverflowRecovery:
    def __init__(self, models: ModelSelector, auto_compaction: AutoCompaction) -> None:
        self._models = models
        self._auto_compaction = auto_compaction
        self._in_vain: set[str] = set()
        """Conversations in which a compaction did not help against a refusal without a reason."""

    async def after_refusal(
        self, live: LiveContext, refusal: ContextOverflow | BadRequest, request: ChatRequest, so_far: Refusals
    ) -> list[TurnEvent] | None:
        """Compact, so that the call can be tried again. None if that would not help."""
        compacted = await self._compacted(live, refusal, estimated_size(request), so_far)
        if compacted is None:
            # The next message is not to be compacted for a window that was only tried.
            await self._models.note_use(live.conversation, "", 0)
            if so_far.learned and self._models.windows:
                await self._models.windows.withdraw(so_far.learned)
        so_far.attempts += 1
        return compacted

    async def given_up(self, live: LiveContext, so_far: Refusals) -> None:
        """Forget a window that was only tried, because the call ended otherwise."""
        if so_far.attempts:
            await self._models.note_use(live.conversation, "", 0)

    async def _compacted(
        self, live: LiveContext, refusal: ContextOverflow | BadRequest, tokens: int, so_far: Refusals
    ) -> list[TurnEvent] | None:
        if isinstance(refusal, BadRequest):
            if not self._may_be_the_length(live, refusal, tokens, so_far):
                return None
            used = await self._models.in_use(live.conversation)
            model, window, learned = used.model, min(used.context_length // 2, tokens), None
        else:
            so_far.learned = learned = refusal.learned or so_far.learned
            first = await self._models.of(live.conversation)
            model, window = refusal.model, refusal.context_length or first.context_length
            if so_far.attempts and refusal.learned is None:
                window = min(window // 2, tokens)
        if so_far.attempts >= _MAX_COMPACTIONS:
            return None
        await self._models.note_use(live.conversation, model, window)
        compacted = await self._auto_compaction.after_overflow(live)
        if compacted is None and learned and not so_far.attempts and tokens < learned.tokens:
            return []  # the answer had no room; the model is asked for a shorter one
        return compacted

    def _may_be_the_length(
        self, live: LiveContext, refusal: BadRequest, tokens: int, so_far: Refusals
    ) -> bool:
        if not refusal.unexplained or tokens < _LONG_PROMPT:
            return False
        if so_far.attempts:
            self._in_vain.add(live.conversation.id)
        return live.conversation.id not in self._in_vain

    def answered(self, live: LiveContext, so_far: Refusals) -> list[TurnEvent]:
        """Return what to tell the owner once the call has succeeded."""
        self._in_vain.discard(live.conversation.id)
        if not so_far.learned:
            return []
        return [Notice(in_words(so_far.learned, self._models.default_name), for_admins=True)]


def in_words(window: LearnedWindow, main_model: str, *, summarises: bool = False) -> str:
    """Tell the owner what was found, and what to set. `summarises`: the model only writes summaries."""
    found = "holds" if window.named else "seems to hold"
    if summarises:
        return (
            f"{window.model}, which writes the summaries, {found} {window.tokens:,} tokens, not {window.believed:,} "
            "as believed. Hermes keeps to that from now on."
        )
    setting = f"`model.context_length: {window.tokens}`"
    if window.model != main_model:
        setting = f"`context_length: {window.tokens}` for it"
    return (
        f"{window.model} {found} {window.tokens:,} tokens, not {window.believed:,} as believed. Hermes keeps to that "
        f"from now on; set {setting} in hermes.yaml."
    )
