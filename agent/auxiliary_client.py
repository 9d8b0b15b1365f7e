"""A synchronous door to the models, for context engines that run in a worker thread.

The host binds it for the process (`bind`) and for a conversation (`bound`), which `asyncio.to_thread` carries
along.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from agent.errors import ModelError, NetworkFailed
from agent.llm import ChatRequest, Completion, LLMClient, Usage
from agent.llm.budget import spender
from agent.messages import ChatDict
from agent.store import SessionStore

Resolver = Callable[[str, str | None], LLMClient]
"""The client for a task and, if the caller names one, a model. Called on the event loop."""

UsageCallback = Callable[[str, Completion], asyncio.Task[None] | None]
"""Told the task and the answer of every call that succeeded, on the event loop."""

_GRACE_SECONDS = 5.0
"""How long a busy event loop may take to report a timeout before the caller stops waiting for it."""

_GIVEN_UP = "Hermes stopped waiting for it."


class Deadline:
    """The end of the time that several calls have together. It can be brought forward while they run.

    For the event loop alone.
    """

    def __init__(self, seconds: float = math.inf) -> None:
        self._began = asyncio.get_running_loop().time()
        self._at = self._began + seconds
        self._running: set[asyncio.Timeout] = set()
        self.missed = False
        """A model was asked and did not answer in time."""

    @property
    def is_limited(self) -> bool:
        return self._at < math.inf

    @property
    def left(self) -> float:
        """Seconds, at least none."""
        return max(0.0, self._at - asyncio.get_running_loop().time())

    def bring_forward(self, seconds: float) -> None:
        """The calls have at most so many seconds from when they began, perhaps none."""
        self._at = min(self._at, self._began + seconds)
        for timeout in self._running:
            if not timeout.expired():
                timeout.reschedule(min(self._at, timeout.when() or math.inf))

    @asynccontextmanager
    async def limit(self, seconds: float) -> AsyncIterator[None]:
        """Raises TimeoutError after so many seconds, or when the deadline is over."""
        now = asyncio.get_running_loop().time()
        if self._at <= now:
            raise TimeoutError
        try:
            async with asyncio.timeout_at(min(self._at, now + seconds)) as timeout:
                self._running.add(timeout)
                try:
                    yield
                finally:
                    self._running.discard(timeout)
        except TimeoutError:
            self.missed = True
            raise


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
    """The models that calls may ask, and the calls that are running."""

    def __init__(
        self,
        resolver: Resolver,
        loop: asyncio.AbstractEventLoop,
        on_usage: UsageCallback | None,
        deadline: Deadline | None = None,
    ) -> None:
        self.resolver = resolver
        self.loop = loop
        self.on_usage = on_usage
        self.deadline = deadline
        self._calls: set[concurrent.futures.Future[Completion]] = set()
        self._asking_since = 0.0
        self._asked_seconds = 0.0
        self._lock = threading.Lock()
        self._released = False

    def submit(self, question: Coroutine[Any, Any, Completion]) -> concurrent.futures.Future[Completion]:
        with self._lock:
            if self._released:
                question.close()
                raise ModelError(_GIVEN_UP)
            if not self._calls:
                self._asking_since = time.monotonic()
            call = asyncio.run_coroutine_threadsafe(question, self.loop)
            self._calls.add(call)
        call.add_done_callback(self._remove)
        return call

    def _remove(self, call: concurrent.futures.Future[Completion]) -> None:
        with self._lock:
            self._calls.discard(call)
            if not self._calls:
                self._asked_seconds += time.monotonic() - self._asking_since

    @property
    def asked_seconds(self) -> float:
        with self._lock:
            running = time.monotonic() - self._asking_since if self._calls else 0.0
            return self._asked_seconds + running

    def release(self) -> None:
        """Cancel the running calls and refuse further ones."""
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
    resolver: Resolver,
    loop: asyncio.AbstractEventLoop,
    *,
    on_usage: UsageCallback | None = None,
    deadline: Deadline | None = None,
) -> Iterator[None]:
    """Bind models for the code inside and for threads that inherit its context. Their calls end with the block."""
    binding = _Binding(resolver, loop, on_usage, deadline)
    token = _in_this_context.set(binding)
    try:
        yield
    finally:
        _in_this_context.reset(token)
        binding.release()


def asked_seconds() -> float:
    """Return how long code with this context has waited for models so far. Each such wait has its own time limit."""
    binding = _in_this_context.get()
    return 0.0 if binding is None else binding.asked_seconds


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


def context_length_of(task: str, model: str | None = None) -> int | None:
    """Return the window of the model that `call_llm` would ask, as far as it is known; None if none is bound."""
    binding = _in_this_context.get() or _process_wide
    return binding.resolver(task, model).context_length if binding else None


async def _ask(binding: _Binding, request: ChatRequest, model: str | None, seconds: float) -> Completion:
    client = binding.resolver(request.purpose, model)
    deadline = binding.deadline or Deadline()
    try:
        async with deadline.limit(seconds):
            completion = await client.complete(request)
    except TimeoutError:
        raise _too_late(seconds, deadline) from None
    if binding.on_usage is not None:
        recording = binding.on_usage(request.purpose, completion)
        if recording is not None:  # the budget must know of this call before the next one asks
            await asyncio.wait([recording])
    return completion


def _wait_for(call: concurrent.futures.Future[Completion], timeout: float) -> Completion:
    """The loop watches the clock; this thread only sees to it that a loop standing still cannot hold it."""
    try:
        return call.result(timeout + _GRACE_SECONDS)
    except concurrent.futures.CancelledError:
        raise ModelError(_GIVEN_UP) from None
    except TimeoutError:
        call.cancel()
        raise _too_late(timeout, None) from None


def _usable_binding() -> _Binding:
    if _on_an_event_loop():
        raise RuntimeError(
            "call_llm waits, so on the event loop it would wait for ever; "
            "call it in a worker thread: await asyncio.to_thread(...)."
        )
    binding = _in_this_context.get() or _process_wide
    if binding is None:
        raise RuntimeError("call_llm has no model to ask: bind one first with agent.bind().")
    if not binding.loop.is_running():
        raise RuntimeError("call_llm needs the event loop it was bound to, and that one is not running.")
    return binding


def _on_an_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _too_late(seconds: float, deadline: Deadline | None) -> ModelError:
    if deadline and deadline.is_limited:
        return ModelError(_GIVEN_UP)
    return NetworkFailed(f"There was no answer within {seconds:g} seconds.")


def _response(completion: Completion) -> AuxiliaryResponse:
    choice = AuxiliaryChoice(AuxiliaryMessage(completion.text), completion.finish_reason)
    return AuxiliaryResponse((choice,), completion.usage, completion.model)


Purpose = Literal["compression", "engine_tool"]
"""Purpose of the calls, as the store records it."""


@asynccontextmanager
async def models_for_engine(
    store: SessionStore,
    session_id: str,
    resolver: Resolver,
    *,
    purpose: Purpose,
    deadline: Deadline | None = None,
) -> AsyncIterator[list[Completion]]:
    """Binds `call_llm` for the code inside. Gives the list in which every answer will be, as soon as it has come."""
    calls: list[Completion] = []
    recording: list[asyncio.Task[None]] = []

    def paid(_: str, call: Completion) -> asyncio.Task[None]:
        """Record the call before the next call of the same work checks the budget."""
        calls.append(call)
        record = store.record_usage(
            session_id, call.usage, model=call.model, purpose=purpose, spender=spender()
        )
        recording.append(asyncio.create_task(record))
        return recording[-1]

    try:
        loop = asyncio.get_running_loop()
        with bound(resolver, loop, on_usage=paid, deadline=deadline):
            yield calls
    finally:
        # Record the usage even if the result is not used.
        await asyncio.gather(*recording)
