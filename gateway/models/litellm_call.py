"""One call to litellm, from its start to its end or to the moment somebody calls it off."""

from __future__ import annotations

import asyncio
import inspect
from contextvars import copy_context
from typing import Any

from gateway.models.litellm_library import Library


async def send(library: Library, **arguments: Any) -> Any:
    """`acompletion`, but one that can be cancelled at any moment.

    litellm prepares a call in a worker thread, which hands it a coroutine. Cancelled before it has that, it
    drops the coroutine, and Python prints a warning about it wherever the person is looking.
    """
    context = copy_context()
    context.run(library.internal_call.set, True)
    call = asyncio.create_task(library.litellm.acompletion(**arguments), context=context)
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        while not call.done() and _waits_for_its_thread(call):
            await asyncio.wait([call], timeout=0.001)
        await _call_off(call)
        raise


def _waits_for_its_thread(call: asyncio.Task[Any]) -> bool:
    """Later it waits in functions further down."""
    coroutine: Any = call.get_coro()
    while inspect.iscoroutine(coroutine.cr_await):
        coroutine = coroutine.cr_await
    return bool(coroutine.cr_code.co_name == "acompletion")


async def _call_off(call: asyncio.Task[Any]) -> None:
    call.cancel()
    await asyncio.wait([call])
    answered = not call.cancelled() and call.exception() is None
    if answered and hasattr(call.result(), "completion_stream"):
        await _abandon(call.result())


async def _abandon(stream: Any) -> None:
    """Closes a stream that nobody has read from: its response is only in reach once reading has begun."""
    reading = asyncio.create_task(anext(stream))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    await close_stream(stream)


async def close_stream(stream: Any) -> None:
    """Closes the HTTP response under a stream; litellm's own close forgets it for Anthropic and others."""
    source = stream.completion_stream
    await stream.aclose()
    lines = getattr(source, "async_response_iterator", None)
    if lines is not None and hasattr(lines, "aclose"):
        await lines.aclose()
