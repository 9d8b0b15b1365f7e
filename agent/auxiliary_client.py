"""A synchronous door to the models, for context engines that run in a worker thread.

The host binds it for the process (`bind`) and for a conversation (`bound`), which `asyncio.to_thread` carries
along.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from agent.errors import ModelError, NetworkFailed
from agent.llm import ChatRequest, Completion, LLMClient, Usage
from agent.messages import ChatDict

Resolver = Callable[[str, str | None], LLMClient]
"""The client for a task and, if the caller names one, a model. Called on the event loop."""

UsageCallback = Callable[[str, Completion], None]
"""Told the task and the answer of every call that succeeded, on the event loop."""

_GRACE_SECONDS = 5.0
"""How long a busy event loop may take to report a timeout before the caller stops waiting for it."""

_GIVEN_UP = "Hermes stopped waiting for it."


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


class _Binding:
    """Whom a call asks, and the calls under way."""

    def __init__(
        self, resolver: Resolver, loop: asyncio.AbstractEventLoop, on_usage: UsageCallback | None
    ) -> None:
        self.resolver = resolver
        self.loop = loop
        self.on_usage = on_usage
        self._calls: set[concurrent.futures.Future[Completion]] = set()
        self._lock = threading.Lock()
        self._released = False

    def submit(self, question: Coroutine[Any, Any, Completion]) -> concurrent.futures.Future[Completion]:
        with self._lock:
            if self._released:
                question.close()
                raise ModelError(_GIVEN_UP)
            call = asyncio.run_coroutine_threadsafe(question, self.loop)
            self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return call

    def release(self) -> None:
        """Nobody waits for the answers any more: what is being asked is cancelled, and nothing is asked again."""
        with self._lock:
            self._released = True
            calls = list(self._calls)
        for call in calls:
            call.cancel()


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
    """Binds for the code inside, and for the threads that get its context. What those ask for ends with it."""
    binding = _Binding(resolver, loop, on_usage)
    token = _in_this_context.set(binding)
    try:
        yield
    finally:
        _in_this_context.reset(token)
        binding.release()


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
    call = binding.submit(_ask(binding, request, model, timeout))
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
        raise ModelError(_GIVEN_UP) from None
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
