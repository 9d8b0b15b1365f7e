"""A synchronous door to the models, for context engines that run in a worker thread.

The host binds it for the process (`bind`) and for a conversation (`bound`), which `asyncio.to_thread` carries
along.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from agent.errors import ModelError, NetworkFailed
from agent.llm import ChatRequest, Completion, LLMClient, Usage
from agent.messages import ChatDict

Resolver = Callable[[str, str | None], LLMClient]
"""The client for a task and, if the caller names one, a model. Called on the event loop."""

UsageCallback = Callable[[str, Completion], None]
"""Told the task and the answer of every call that succeeded, on the event loop."""

_GRACE_SECONDS = 5.0
"""How long a busy event loop may take to report a timeout before the caller stops waiting for it."""


@dataclass(frozen=True, slots=True)
class AuxiliaryMessage:
    content: str
    role: str = "assistant"


@dataclass(frozen=True, slots=True)
class AuxiliaryChoice:
    message: AuxiliaryMessage
    finish_reason: str
    index: int = 0


@dataclass(frozen=True, slots=True)
class AuxiliaryResponse:
    """The part of OpenAI's response that an engine reads: `response.choices[0].message.content`."""

    choices: tuple[AuxiliaryChoice, ...]
    usage: Usage
    model: str


@dataclass(frozen=True, slots=True)
class _Binding:
    resolver: Resolver
    loop: asyncio.AbstractEventLoop
    on_usage: UsageCallback | None


_process_wide: _Binding | None = None
_in_this_context: ContextVar[_Binding | None] = ContextVar("auxiliary_binding", default=None)


def bind(
    resolver: Resolver, loop: asyncio.AbstractEventLoop, *, on_usage: UsageCallback | None = None
) -> None:
    """Binds for the whole process."""
    global _process_wide
    _process_wide = _Binding(resolver, loop, on_usage)


def unbind() -> None:
    global _process_wide
    _process_wide = None


@contextmanager
def bound(
    resolver: Resolver, loop: asyncio.AbstractEventLoop, *, on_usage: UsageCallback | None = None
) -> Iterator[None]:
    """Binds for the code inside, and for the threads it starts with `asyncio.to_thread`."""
    token = _in_this_context.set(_Binding(resolver, loop, on_usage))
    try:
        yield
    finally:
        _in_this_context.reset(token)


def call_llm(
    *,
    task: str,
    messages: list[ChatDict],
    max_tokens: int | None = None,
    temperature: float | None = None,
    model: str | None = None,
    timeout: float = 120.0,
) -> AuxiliaryResponse:
    """Asks a model and waits for the whole answer. Raises a ModelError, or RuntimeError when misused."""
    binding = _usable_binding()
    request = ChatRequest(messages, max_tokens=max_tokens, temperature=temperature, purpose=task)
    call = asyncio.run_coroutine_threadsafe(_ask(binding, request, model, timeout), binding.loop)
    return _response(_wait_for(call, timeout))


async def _ask(binding: _Binding, request: ChatRequest, model: str | None, seconds: float) -> Completion:
    client = binding.resolver(request.purpose, model)
    try:
        async with asyncio.timeout(seconds):
            completion = await client.complete(request)
    except TimeoutError:
        raise _too_late(seconds) from None
    if binding.on_usage is not None:
        binding.on_usage(request.purpose, completion)
    return completion


def _wait_for(call: concurrent.futures.Future[Completion], timeout: float) -> Completion:
    """The loop watches the clock; this thread only sees to it that a loop standing still cannot hold it."""
    try:
        return call.result(timeout + _GRACE_SECONDS)
    except concurrent.futures.CancelledError:
        raise ModelError("Hermes stopped while it was being asked.") from None
    except TimeoutError:
        call.cancel()
        raise _too_late(timeout) from None


def _usable_binding() -> _Binding:
    if _on_an_event_loop():
        raise RuntimeError(
            "call_llm waits, so on the event loop it would wait for ever; "
            "call it in a worker thread: await asyncio.to_thread(...)."
        )
    binding = _in_this_context.get() or _process_wide
    if binding is None:
        raise RuntimeError("call_llm has no model to ask: bind one first with agent.auxiliary_client.bind().")
    if not binding.loop.is_running():
        raise RuntimeError("call_llm needs the event loop it was bound to, and that one is not running.")
    return binding


def _on_an_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _too_late(seconds: float) -> NetworkFailed:
    return NetworkFailed(f"There was no answer within {seconds:g} seconds.")


def _response(completion: Completion) -> AuxiliaryResponse:
    choice = AuxiliaryChoice(AuxiliaryMessage(completion.text), completion.finish_reason)
    return AuxiliaryResponse((choice,), completion.usage, completion.model)
