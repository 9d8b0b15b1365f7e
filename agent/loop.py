"""The agent loop: prompt -> model -> tools -> ... -> answer, as a stream of events.

Every completed step is stored before it is shown, so a stop or a crash loses nothing that was done. Between steps the
context engine may move the conversation to a smaller child session; the loop goes on there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from copy import copy
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Literal

from agent.aio import finish_despite_cancel
from agent.context.auto_compaction import AutoCompaction, OverflowRecovery, Refusals
from agent.context.compaction import EngineStatus, Outcome
from agent.context.compaction_pace import CompactionPace
from agent.context.live import LiveContext
from agent.errors import BadRequest, ContextOverflow, EmptyAnswer, EngineFailed, HermesError
from agent.events import Notice, Steered, StepStarted, TextDelta, TurnDone, TurnEvent, UsageReported
from agent.ids import id_from
from agent.llm import ChatRequest, Completion, LLMClient, Retrying, TextChunk
from agent.llm.guards import spender
from agent.llm.selection import ModelSelector
from agent.messages import Message, as_chat, unanswered_calls
from agent.prompt_caching import PromptCaching
from agent.redaction.known import StreamRedactor
from agent.store import Conversation, SessionStore, Split
from agent.system_prompt import render_system_prompt
from agent.tokens import estimate_tools_tokens
from agent.tool import Approve, SendFile, ToolContext, send_no_file
from agent.toolbox import Toolbox, run_tools
from agent.tools.memory import to_tell

_NO_RESULT = (
    "No result was recorded: the turn was stopped or Hermes was restarted. Whether it took effect is unknown."
)
_LAST_STEP = (
    "[All steps for this message are used up. Answer now with what you have, and say what is left to do.]"
)
CLOSING_SECONDS = 10.0
_CLOSED_AT_ONCE = 32
_CUT_SHORT = (
    "The answer reached the longest this model may write (`model.max_tokens`); say “continue” for the rest."
)


@dataclass(frozen=True, slots=True)
class Arrived:
    """Messages that came while a turn was running, for the model to read at its next step."""

    messages: Sequence[Message]
    settles: Sequence[str]
    """Ids of the inbox messages that are done once these are stored."""
    on_stored: Callable[[], None]
    """Called once they are stored. Until then they wait for a turn of their own."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message to be answered, and where it came from."""

    conversation: Conversation
    message: Message
    workspace: Path
    steering: Callable[[], Awaitable[Arrived]] | None = None
    """Returns the messages that have arrived since; None if each message gets a turn of its own."""
    send_file: SendFile = send_no_file
    approve: Approve | None = None
    has_begun: bool = False
    """The message is stored, and perhaps some steps of its answer: Hermes was stopped in the middle."""
    attempt: int = 0
    """Earlier attempts in this process. Each attempt uses new step ids, because the text of an earlier attempt may not
    be removed from the chat yet."""
    also_answers: Sequence[str] = ()
    """Other messages that are answered with this one, because they are parts of it."""
    will_resume: Callable[[], bool] = lambda: False
    """Called when the turn is cancelled. If the turn will resume, its partial answer is not stored."""


class Agent:
    """Answers messages with the model of their conversation and the tools of the platform they came from."""

    def __init__(
        self,
        models: ModelSelector,
        store: SessionStore,
        toolbox_for: Callable[[str], Toolbox],
        auto_compaction: AutoCompaction,
        *,
        caching: PromptCaching,
        instructions: str,
        max_iterations: int,
    ) -> None:
        self.models = models
        self.store = store
        self.auto_compaction = auto_compaction
        self._recovery = OverflowRecovery(models, auto_compaction)
        self.toolbox_for = toolbox_for
        """Returns the tools of a platform, without those that an engine adds."""
        self.caching = caching
        self.instructions = instructions
        self.max_iterations = max_iterations

    def with_store(self, store: SessionStore) -> Agent:
        """Return this agent writing to `store`, a view of the same database; everything else is shared."""
        agent = copy(self)
        agent.store = store
        return agent

    async def accept(self, turn: Turn) -> LiveContext:
        """Store the message. After that neither a stop nor a failure can lose it."""
        live = await self.open(turn.conversation)
        # Providers refuse calls without a result. No call is run again.
        closed = [
            Message("tool", _NO_RESULT, tool_call_id=call.id, name=call.name)
            for call in unanswered_calls(live.history)
        ]
        said = [] if turn.has_begun else [turn.message]
        await live.append(*closed, *said, settles=turn.also_answers)
        return live

    async def run(self, turn: Turn, live: LiveContext | None = None) -> AsyncGenerator[TurnEvent, None]:
        """Run the turn. The last event is TurnDone, or a HermesError is raised. Cancelling keeps the partial answer."""
        live = live or await self.accept(turn)
        for told in await self.auto_compaction.before_turn(live):
            yield told
        llm, toolbox = await self.models.of(live.conversation), await self._toolbox(live)
        for told in self.auto_compaction.notices(live):
            yield told
        step_ids = await self._step_ids(turn)

        for steps_left in reversed(range(self.max_iterations)):
            answer, is_last = Completion(), steps_left == 0
            answering = self._answer(turn, step_ids, live, llm, toolbox, last_step=is_last)
            async with aclosing(answering) as events:
                async for event in events:
                    if isinstance(event, Completion):
                        answer = event
                    else:
                        yield event
            if not answer.tool_calls:
                if answer.finish_reason == "length":
                    yield Notice(_CUT_SHORT)
                for told in await self.auto_compaction.after_turn(live, answer.usage):
                    yield told
                for sentence in await to_tell(live.store, turn.conversation.id):
                    yield Notice(sentence)
                yield TurnDone(answer.text)
                return
            async with aclosing(run_tools(toolbox, answer.tool_calls, self._context(turn, live))) as outcomes:
                async for outcome in outcomes:
                    if isinstance(outcome, Message):
                        live.add_stored(outcome)
                    else:
                        yield outcome
            if turn.steering:
                for message in await finish_despite_cancel(self._steer(turn.steering, live)):
                    yield Steered(message.id, message.content)
            for told in await self.auto_compaction.make_room(live, answer.usage):
                yield told

    async def open(self, conversation: Conversation) -> LiveContext:
        """Return the live context of the conversation. Pins the system prompt of a new session."""
        session = await self.store.session(conversation.live_session_id)
        if session.system_prompt is None:
            llm = await self.models.of(conversation)
            facts = await self.store.facts(conversation.person)
            prompt = render_system_prompt(self.instructions, facts=facts, has_tools=llm.supports_tools)
            session = await self.store.pin(session.id, system_prompt=prompt, model=llm.model)
        history, tools = await self.store.history(session.id), await self.tools_tokens(conversation)
        return LiveContext(self.store, conversation, session, history, tools, self._request_now)

    async def tools_tokens(self, conversation: Conversation) -> int:
        """Estimate the tool definitions in each prompt. Those of an engine count once the engine has named them."""
        if not (await self.models.of(conversation)).supports_tools:
            return 0
        runner = self.auto_compaction.compactor.engines.peek(conversation.id)
        of_engine = estimate_tools_tokens(runner.known_schemas) if runner else 0
        return self.toolbox_for(conversation.address.platform).tokens + of_engine

    async def compact(self, live: LiveContext, *, focus: str | None = None) -> Outcome:
        """Compact for `/compress`."""
        return await self.auto_compaction.compact_on_request(live, focus)

    @property
    def compacts_automatically(self) -> bool:
        return self.auto_compaction.enabled

    def compaction_pace(self, live: LiveContext) -> CompactionPace:
        """Return how often the conversation was compacted lately, and with what success."""
        return self.auto_compaction.compactor.pace_of(live)

    async def compact_oversized(self, live: LiveContext, tokens: int) -> list[TurnEvent]:
        """Compact a session that session hygiene found too large, and return what the person is told."""
        return await self.auto_compaction.compact(live, "hygiene", tokens)

    async def reset(self, live: LiveContext) -> None:
        """Begin a new session; the old one stays searchable."""
        child = await live.store.split(Split(live.session.id, "reset"))
        await self.auto_compaction.compactor.engines.reset(live, child)

    async def discard_engine(self, left: LiveContext) -> None:
        """Drop the engine of a session that the conversation leaves: what it has learnt would mislead it."""
        await self.auto_compaction.compactor.engines.discard(left)

    async def replace_engine(self, left: LiveContext, live: LiveContext) -> EngineStatus | None:
        """Start another engine, as after a restart. None if none can be started."""
        await self.discard_engine(left)
        with suppress(EngineFailed):
            return await self.start_engine(live)
        return None

    async def start_engine(self, live: LiveContext) -> EngineStatus:
        """Return the status of the conversation's engine, started if need be. Raises EngineFailed."""
        compactor = self.auto_compaction.compactor
        return await compactor.status_of(live.conversation, await compactor.engines.get(live))

    async def engine_status(self, conversation: Conversation) -> EngineStatus | None:
        """Return the status of the engine, if one is running. Starts none, and waits for none."""
        compactor = self.auto_compaction.compactor
        runner = compactor.engines.peek(conversation.id)
        return await compactor.status_of(conversation, runner) if runner else None

    async def engine_report(self, conversation: Conversation) -> tuple[dict[str, str], str]:
        """Return what a running engine tells of itself, and what keeps it from its work. Empty while it is busy."""
        runner = self.auto_compaction.compactor.engines.peek(conversation.id)
        told: dict[str, str] = {}
        problem = ""
        if runner and not runner.busy:
            with suppress(EngineFailed):
                told = await runner.get_status()
            with suppress(EngineFailed):
                problem = await runner.problem()
        return told, problem

    async def summariser(self, conversation: Conversation) -> LLMClient:
        """Return the model that writes the summaries of the conversation."""
        return await self.auto_compaction.compactor.summariser(conversation)

    async def close(self) -> None:
        """Shutdown: each engine is told that its session ends."""
        await self.auto_compaction.compactor.close()
        at_once = asyncio.Semaphore(_CLOSED_AT_ONCE)
        endings = [self._end(at_once, each) for each in self.auto_compaction.compactor.engines.conversations]
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                for ended in await asyncio.gather(*endings, return_exceptions=True):
                    if ended is not None:
                        raise ended

    async def _end(self, at_once: asyncio.Semaphore, conversation_id: str) -> None:
        """End one engine. Engines end in parallel, so that one that hangs does not keep the others from saving."""
        async with at_once:
            live = await self.open(await self.store.conversation(conversation_id))
            await self.auto_compaction.compactor.engines.close(live)

    async def _steer(
        self, steering: Callable[[], Awaitable[Arrived]], live: LiveContext
    ) -> Sequence[Message]:
        """Store messages that arrived during the turn. Runs to its end: they are either stored or still queued."""
        arrived = await steering()
        await live.append(*arrived.messages, settles=arrived.settles)
        arrived.on_stored()
        return arrived.messages

    async def _step_ids(self, turn: Turn) -> Iterator[str]:
        """Return the ids of the model's answers in the turn. A resumed turn continues after those that are stored."""
        first = 0
        if turn.has_begun:
            ids = [_step_id(turn, number) for number in range(2 * self.max_iterations)]
            first = max((ids.index(step) + 1 for step in await self.store.known(ids)), default=0)
        return (_step_id(turn, number) for number in count(turn.attempt + first))

    async def _answer(
        self,
        turn: Turn,
        step_ids: Iterator[str],
        live: LiveContext,
        llm: LLMClient,
        toolbox: Toolbox,
        *,
        last_step: bool,
    ) -> AsyncGenerator[TurnEvent | Completion, None]:
        """Ask the model, store its answer and yield it last. If the prompt does not fit, compact and ask again."""
        refusals = Refusals()
        while True:
            request = self._request(live, llm, toolbox, last_step=last_step)
            redactor, shown, told = StreamRedactor(), list[str](), set[str]()
            step_id, answer = next(step_ids), Completion()
            yield StepStarted(step_id)
            try:
                async with aclosing(llm.stream(request)) as stream:
                    async for item in stream:
                        if isinstance(item, TextChunk):
                            if text := redactor.feed(item.text):
                                shown.append(text)
                                yield TextDelta(text)
                        elif isinstance(item, Retrying):
                            if item.reason not in told:
                                told.add(item.reason)
                                yield Notice(f"{item.reason} Hermes asks again by itself.")
                        else:
                            if text := redactor.flush():
                                shown.append(text)
                                yield TextDelta(text)
                            answer = replace(item, text=redactor.redact(item.text))
                            yield await self._record(live, answer)
                            if request.tool_choice == "none" or not request.tools:
                                answer = replace(answer, tool_calls=())
                            if not answer.text and not answer.tool_calls:
                                raise EmptyAnswer
            except (ContextOverflow, BadRequest) as refusal:
                await self._store_partial(turn, step_id, live, shown)
                compacted = await self._recovery.after_refusal(live, refusal, request, refusals)
                if compacted is None:
                    raise
                for event in compacted:
                    yield event
                continue
            except (asyncio.CancelledError, HermesError):
                # Any other error is a bug: the turn is parked, and its partial answer is not stored.
                await self._store_partial(turn, step_id, live, shown)
                await self._recovery.given_up(live, refusals)
                raise
            for event in self._recovery.answered(live, refusals):
                yield event
            said = Message("assistant", answer.text, tool_calls=answer.tool_calls, id=step_id)
            settled = [] if answer.tool_calls else [turn.message.id]
            await live.append(said, answers=turn.message.id, settles=settled)
            yield answer
            return

    async def _record(self, live: LiveContext, answer: Completion) -> UsageReported:
        """Record the usage of a model call and tell the engine."""
        usage, model = answer.usage, answer.model
        record = live.store.record_usage(live.session.id, usage, model=model, spender=spender())
        await finish_despite_cancel(record)
        used = await self.models.note_use(live.conversation, model, answer.context_length)
        await self.auto_compaction.after_call(live, usage)
        return UsageReported(usage, model, used.context_length)

    async def _store_partial(self, turn: Turn, step_id: str, live: LiveContext, shown: Sequence[str]) -> None:
        """Store the text that was shown before the call was stopped or failed, unless the turn will resume."""
        if shown and not turn.will_resume():
            said = Message("assistant", "".join(shown), id=step_id)
            await live.append(said, answers=turn.message.id)

    async def _toolbox(self, live: LiveContext) -> Toolbox:
        platform = live.conversation.address.platform
        return self.toolbox_for(platform).with_tools(await self.auto_compaction.tools(live))

    async def _request_now(self, live: LiveContext) -> Callable[[], ChatRequest]:
        """Return a function that builds the request. Call it only to send it: marking it for the cache has effects."""
        llm, toolbox = await self.models.of(live.conversation), await self._toolbox(live)
        return lambda: self._request(live, llm, toolbox, last_step=False)

    def _request(
        self, live: LiveContext, llm: LLMClient, toolbox: Toolbox, *, last_step: bool
    ) -> ChatRequest:
        messages = [{"role": "system", "content": live.system_prompt}, *map(as_chat, live.history)]
        tools = toolbox.definitions if llm.supports_tools else ()
        # The tools stay in the request of the last step: removing them would invalidate the provider's cache.
        must_answer = last_step and bool(tools)
        if must_answer:
            messages.append({"role": "user", "content": _LAST_STEP})
        marked = self.caching.mark(live.session.id, llm.model, messages, tools)
        choice: Literal["auto", "none"] = "none" if must_answer else "auto"
        return ChatRequest(marked.messages, marked.tools, tool_choice=choice)

    def _context(self, turn: Turn, live: LiveContext) -> ToolContext:
        return ToolContext(
            conversation_id=turn.conversation.id,
            session_id=live.session.id,
            person=turn.conversation.person,
            platform=turn.conversation.address.platform,
            workspace=turn.workspace,
            store=live.store,
            send_file=turn.send_file,
            approve=turn.approve,
        )


def _step_id(turn: Turn, number: int) -> str:
    return id_from("msg", turn.message.id, str(number))
