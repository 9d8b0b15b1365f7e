"""Runs the calls of one answer: all at once, each result stored and shown as it comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence

from agent.aio import finish_despite_cancel
from agent.events import ToolFinished, ToolStarted, TurnEvent
from agent.messages import Message, ToolCall
from agent.tool import ToolContext
from agent.toolbox import Toolbox, ToolResult


async def run_tools(
    toolbox: Toolbox, calls: Sequence[ToolCall], context: ToolContext
) -> AsyncGenerator[TurnEvent | Message, None]:
    """Calls with effects keep their order among themselves."""
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
            message = Message("tool", result.as_read, tool_call_id=call.id, name=call.name)
            yield (await finish_despite_cancel(context.store.append(context.session_id, [message])))[0]
            yield ToolFinished(call.id, call.name, result.ok, result.content, seconds)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
