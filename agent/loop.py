"""The agent loop: prompt -> model -> tools -> ... -> answer, as a stream of events.

Every completed step is stored before it is shown, so a stop or a crash loses nothing that was done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path

from agent.errors import EmptyAnswer
from agent.events import (
    Notice,
    Steered,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnEvent,
    UsageReported,
)
from agent.llm import ChatRequest, Completion, LLMClient, Retrying, TextChunk
from agent.messages import Message, ToolCall, as_chat, unanswered_calls
from agent.prompt import render_system_prompt
from agent.store import Conversation, Session, SessionStore
from agent.tool import ToolContext
from agent.toolbox import Toolbox, ToolResult

_NO_RESULT = (
    "No result was recorded: the turn was stopped or Hermes was restarted. Whether it took effect is unknown."
)
_LAST_STEP = (
    "[All steps for this message are used up. Answer now with what you have, and say what is left to do.]"
)
_CUT_SHORT = "The answer reached `model.max_tokens` and ends early; say “continue” for the rest."


def nothing_new() -> Sequence[Message]:
    return ()


@dataclass(frozen=True, slots=True)
class Turn:
    """One message to be answered, and where it came from."""

    conversation: Conversation
    message: Message
    workspace: Path
    steering: Callable[[], Sequence[Message]] = nothing_new
    """Takes the messages that arrived since it was last called."""


class Agent:
    """Answers messages with one model, and the tools of the platform they came from."""

    def __init__(
        self,
        llm: LLMClient,
        store: SessionStore,
        toolbox_for: Callable[[str], Toolbox],
        *,
        instructions: str,
        max_iterations: int,
    ) -> None:
        self.llm = llm
        self.store = store
        self._toolbox_for = toolbox_for
        self._instructions = instructions
        self._max_iterations = max_iterations

    async def run(self, turn: Turn) -> AsyncGenerator[TurnEvent, None]:
        """Ends with TurnDone or raises a HermesError. Cancelling keeps what was said so far."""
        session = await self._pinned_session(turn.conversation)
        history = await self.store.history(session.id)
        history += await self.store.append(session.id, [*_close_abandoned(history), turn.message])
        context = _tool_context(turn, session, self.store)
        toolbox = self._toolbox_for(context.platform)

        for steps_left in reversed(range(self._max_iterations)):
            request = self._request(session, history, toolbox, last_step=steps_left == 0)
            answer = Completion()
            async with aclosing(self._ask(session, request)) as events:
                async for event in events:
                    if isinstance(event, Completion):
                        answer = event
                    else:
                        yield event
            reply = Message("assistant", answer.text, tool_calls=answer.tool_calls)
            history += await self.store.append(session.id, [reply])
            if not answer.tool_calls or steps_left == 0:
                if answer.finish_reason == "length":
                    yield Notice(_CUT_SHORT)
                yield TurnDone(answer.text)
                return
            async with aclosing(self._run_tools(toolbox, answer.tool_calls, context)) as steps:
                async for step in steps:
                    if isinstance(step, Message):
                        history.append(step)
                    else:
                        yield step
            for message in turn.steering():
                history += await self.store.append(session.id, [message])
                yield Steered(message.id, message.content)

    async def _pinned_session(self, conversation: Conversation) -> Session:
        session = await self.store.session(conversation.live_session_id)
        if session.system_prompt is not None:
            return session
        facts = await self.store.facts(conversation.person)
        prompt = render_system_prompt(self._instructions, facts=facts, has_tools=self.llm.supports_tools)
        return await self.store.pin(session.id, system_prompt=prompt, model=self.llm.model)

    def _request(
        self, session: Session, history: Sequence[Message], toolbox: Toolbox, *, last_step: bool
    ) -> ChatRequest:
        messages = [{"role": "system", "content": session.system_prompt}, *map(as_chat, history)]
        tools = toolbox.definitions if self.llm.supports_tools else ()
        if last_step and tools:
            # The tools stay in the request: removing them would invalidate the provider's cache.
            messages.append({"role": "user", "content": _LAST_STEP})
            return ChatRequest(messages, tools, tool_choice="none")
        return ChatRequest(messages, tools)

    async def _ask(
        self, session: Session, request: ChatRequest
    ) -> AsyncGenerator[TurnEvent | Completion, None]:
        """One model call. If it is stopped or fails, the text already shown is stored."""
        shown: list[str] = []
        try:
            async with aclosing(self.llm.stream(request)) as stream:
                async for item in stream:
                    if isinstance(item, TextChunk):
                        shown.append(item.text)
                        yield TextDelta(item.text)
                    elif isinstance(item, Retrying):
                        yield Notice(item.reason)
                    else:
                        await self.store.record_usage(session.id, item.usage, model=item.model)
                        yield UsageReported(item.usage, item.model, self.llm.context_length)
                        if request.tool_choice == "none":
                            item = replace(item, tool_calls=())
                        if not item.text and not item.tool_calls:
                            raise EmptyAnswer
                        yield item
                        return
        except BaseException:
            if shown:
                await self.store.append(session.id, [Message("assistant", "".join(shown))])
            raise

    async def _run_tools(
        self, toolbox: Toolbox, calls: Sequence[ToolCall], context: ToolContext
    ) -> AsyncGenerator[TurnEvent | Message, None]:
        """All calls at once; each result is stored and shown as it comes. Calls with effects keep their order."""
        in_order = asyncio.Lock()

        async def run(call: ToolCall) -> tuple[ToolCall, ToolResult, float]:
            began = time.perf_counter()
            if toolbox.has_effects(call.name):
                async with in_order:
                    result = await toolbox.run(call, context)
            else:
                result = await toolbox.run(call, context)
            return call, result, time.perf_counter() - began

        for call in calls:
            yield ToolStarted(call.id, call.name, call.arguments)
        tasks = [asyncio.create_task(run(call)) for call in calls]
        try:
            for finished in asyncio.as_completed(tasks):
                call, result, seconds = await finished
                message = Message("tool", result.content, tool_call_id=call.id, name=call.name)
                yield (await self.store.append(context.session_id, [message]))[0]
                yield ToolFinished(call.id, call.name, result.ok, result.content, seconds)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _tool_context(turn: Turn, session: Session, store: SessionStore) -> ToolContext:
    conversation = turn.conversation
    return ToolContext(
        conversation_id=conversation.id,
        session_id=session.id,
        person=conversation.person,
        platform=conversation.address.platform,
        workspace=turn.workspace,
        store=store,
    )


def _close_abandoned(history: Sequence[Message]) -> list[Message]:
    """Results for calls that never got one; nothing is run again."""
    return [
        Message("tool", _NO_RESULT, tool_call_id=call.id, name=call.name)
        for call in unanswered_calls(history)
    ]
