"""`call_llm`, by which context engines ask a model from their worker thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agent.errors import ModelError, NetworkFailed
from agent.llm import ChatRequest, Completion, LLMClient, Usage
from agent.llm.guards import spender
from agent.messages import ChatDict
from agent.store import SessionStore

Resolver = Callable[[str, str | None], LLMClient]
"""The client for a task and, if the caller names one, a model. Called on the event loop."""

UsageCallback = Callable[[str, Completion], asyncio.Task[None] | None]
"""Gets the task and the answer of every call that succeeded, on the event loop. The next call waits for the returned
task, so that the budget includes this call."""

Purpose = Literal["compression", "engine_tool"]
"""Purpose of the calls, as the store records it."""

CACHED_PREFIX_TASK = "compression_fork"
"""Task whose messages continue the conversation as the provider has it in its cache. Reading the old turns there costs
a tenth of sending them in a new prompt."""

_GRACE_SECONDS = 5.0
"""How long a busy event loop may take to report a timeout before the caller stops waiting for it."""

_GIVEN_UP = "Hermes stopped waiting for it."


class Deadline:
    """Time limit that several calls share. It can be brought forward while they run. Not thread-safe."""

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
        """Limit the calls to so many seconds from their beginning."""
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


@dataclass(slots=True)
class _Binding:
    """The models that calls may ask, and the calls that are running."""

    resolver: Resolver
    on_usage: UsageCallback | None
    deadline: Deadline | None
    prefix: Callable[[], ChatRequest] | None
    """Builds the request that the provider has in its cache."""
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _calls: set[concurrent.futures.Future[Completion]] = field(default_factory=set)
    _asking_since: float = 0.0
    _asked_seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _released: bool = False

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

    async def ask(self, request: ChatRequest, model: str | None, seconds: float) -> Completion:
        task = request.purpose
        client = self.resolver(task, model)
        if self.prefix is not None and task == CACHED_PREFIX_TASK:
            request = _continued(self.prefix(), request)
        deadline = self.deadline or Deadline()
        try:
            async with deadline.limit(seconds):
                completion = await client.complete(request)
        except TimeoutError:
            raise (ModelError(_GIVEN_UP) if deadline.is_limited else _too_late(seconds)) from None
        recording = self.on_usage(task, completion) if self.on_usage else None
        if recording is not None:
            await asyncio.wait([recording])
        return completion


_binding: ContextVar[_Binding | None] = ContextVar("auxiliary_binding", default=None)


@contextmanager
def bound(
    resolver: Resolver,
    *,
    on_usage: UsageCallback | None = None,
    deadline: Deadline | None = None,
    prefix: Callable[[], ChatRequest] | None = None,
) -> Iterator[None]:
    """Bind models for the code inside and for threads that inherit its context. Their calls end with the block."""
    binding = _Binding(resolver, on_usage, deadline, prefix)
    token = _binding.set(binding)
    try:
        yield
    finally:
        _binding.reset(token)
        binding.release()


@asynccontextmanager
async def models_for_engine(
    store: SessionStore,
    session_id: str,
    resolver: Resolver,
    *,
    purpose: Purpose,
    deadline: Deadline | None = None,
    prefix: Callable[[], ChatRequest] | None = None,
) -> AsyncIterator[list[Completion]]:
    """Bind models for an engine and record what its calls cost. Yields the list to which each answer is added."""
    calls: list[Completion] = []
    recording: list[asyncio.Task[None]] = []

    def paid(_: str, call: Completion) -> asyncio.Task[None]:
        calls.append(call)
        record = store.record_usage(
            session_id, call.usage, model=call.model, purpose=purpose, spender=spender()
        )
        recording.append(asyncio.create_task(record))
        return recording[-1]

    try:
        with bound(resolver, on_usage=paid, deadline=deadline, prefix=prefix):
            yield calls
    finally:
        # Record the usage even if the result is not used.
        await asyncio.gather(*recording)


def asked_seconds() -> float:
    """Return how long code with this context has waited for models so far. Each such wait has its own time limit."""
    binding = _binding.get()
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
    """Ask a model and wait for the whole answer. Raises a ModelError, or RuntimeError when misused."""
    binding = _usable_binding()
    request = ChatRequest(messages, max_tokens=max_tokens, temperature=temperature, purpose=task)
    call = binding.submit(binding.ask(request, model, timeout))
    try:
        # The loop keeps the time; the limit here only matters if the loop is blocked.
        completion = call.result(timeout + _GRACE_SECONDS)
    except concurrent.futures.CancelledError:
        raise ModelError(_GIVEN_UP) from None
    except TimeoutError:
        call.cancel()
        raise _too_late(timeout) from None
    choice = AuxiliaryChoice(AuxiliaryMessage(completion.text), completion.finish_reason)
    return AuxiliaryResponse((choice,), completion.usage, completion.model)


def context_length_of(task: str, model: str | None = None) -> int | None:
    """Return the window of the model that `call_llm` would ask, as far as it is known; None if none is bound."""
    binding = _binding.get()
    return binding.resolver(task, model).context_length if binding else None


def _usable_binding() -> _Binding:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError(
            "call_llm waits, so on the event loop it would wait for ever; "
            "call it in a worker thread: await asyncio.to_thread(...)."
        )
    binding = _binding.get()
    if binding is None:
        raise RuntimeError("call_llm has no model to ask: Hermes binds one while it calls an engine.")
    if not binding.loop.is_running():
        raise RuntimeError("call_llm needs the event loop it was bound to, and that one is not running.")
    return binding


def _continued(conversation: ChatRequest, request: ChatRequest) -> ChatRequest:
    """Append the messages to the conversation. Tools and their choice stay: changing either would lose the cache."""
    return replace(
        conversation,
        messages=[*conversation.messages, *request.messages],
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        purpose=request.purpose,
    )


def _too_late(seconds: float) -> ModelError:
    return NetworkFailed(f"There was no answer within {seconds:g} seconds.")
