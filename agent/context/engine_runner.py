"""Runs a context engine: the only code that touches one.

An engine is foreign code: it runs in a thread, one call at a time with a deadline, on copies. Its errors become
EngineFailed, and its values are checked. An engine that hangs is abandoned, because its thread cannot be ended.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import structlog

from agent import auxiliary_client
from agent.aio import ForeignError, foreign_code, mark_exception_seen, run_in_daemon_thread
from agent.compression.outcome import CompressionOutcome
from agent.context.child_session import as_messages
from agent.context.engine_value_checks import (
    as_engine,
    as_flag,
    as_hint,
    as_nothing,
    as_outcome,
    as_schemas,
    as_status,
    as_text,
    as_tokens,
    copied,
)
from agent.context_engine import ContextEngine
from agent.errors import EngineFailed, HermesError, InvalidCompaction
from agent.llm import Usage
from agent.llm.selection import ModelInUse
from agent.messages import ChatDict

log = structlog.get_logger(__name__)
T = TypeVar("T")

HINT_SECONDS = 5.0

DEADLINES: Mapping[str, float] = {
    "__init__": 30.0,
    "update_model": 10.0,
    "on_session_start": 30.0,
    "on_session_end": 20.0,
    "on_session_reset": 10.0,
    "update_from_response": 10.0,
    "should_compress": 10.0,
    "should_compress_preflight": 60.0,
    "hint": HINT_SECONDS + 3.0,
    "get_tool_schemas": 10.0,
    "handle_tool_call": 90.0,
    "compress": 120.0,
    "get_status": 5.0,
    "problem": 5.0,
}
"""Seconds until an engine that has not returned is abandoned, not counting calls of models."""

_LONGEST = 900.0
"""Seconds for any call, waiting for models included."""
_TICK = 1.0
_SHORTEST_TICK = 0.02
_QUIET = ("hint",)
"""Optional members: their failures are logged, and the user is not told."""


@dataclass(frozen=True, slots=True)
class EngineState:
    """The checked attributes of an engine, read after each call and never while it works."""

    threshold_tokens: int = 0
    last_outcome: CompressionOutcome | None = None
    has_fallback_summary: bool = False


_ATTRIBUTES: Mapping[str, Callable[[object], object]] = {
    "threshold_tokens": as_tokens,
    "last_outcome": as_outcome,
    "has_fallback_summary": as_flag,
}
"""The fields of EngineState and their checks."""


@dataclass(frozen=True, slots=True)
class _Results:
    """Values and errors of a call, by member of the engine."""

    values: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, HermesError] = field(default_factory=dict)


class EngineRunner:
    """One conversation's engine. Every method raises EngineFailed, and nothing else, for what the engine does wrong."""

    engine: ContextEngine
    name: str

    def __init__(
        self,
        *,
        seconds: Mapping[str, float] = DEADLINES,
        on_failure: Callable[[EngineFailed], None] = lambda failure: None,
        on_success: Callable[[str], None] = lambda method: None,
    ) -> None:
        self.llm = ModelInUse("", 0)
        """The model that the engine was last told of."""
        self.state = EngineState()
        self._hung_in = ""
        self._seconds = seconds
        self._on_failure = on_failure
        self._on_success = on_success
        """Told the member that worked; a compaction works only once it is published."""
        self._free = asyncio.Lock()
        self._callers = 0
        self._schemas: list[ChatDict] | None = None
        self._reported: list[dict[str, int]] = []
        """Usage that came while the engine was busy; it is reported before the next call."""
        self._failing: set[str] = set()
        """Members that have failed. Their traceback is in the log already."""

    @property
    def is_abandoned(self) -> bool:
        """A call did not return in time, so no other call is made."""
        return bool(self._hung_in)

    @property
    def busy(self) -> bool:
        """A call is running or waits for its turn."""
        return self._callers > 0 or self._free.locked()

    @property
    def has_hint(self) -> bool:
        """Return whether the engine overrides `hint`."""
        return type(self.engine).hint is not ContextEngine.hint

    async def start(self, make: Callable[[], ContextEngine]) -> None:
        def known(value: object) -> None:
            self.engine = as_engine(value)
            self.name = as_text(_no_coroutine(self.engine.name))

        await self._run("__init__", make, known)

    async def fit(self, llm: ModelInUse) -> None:
        """Tell an engine that is not busy about a new model or window. If that fails, its old values stay."""
        if self.llm == llm or self.busy:
            return
        self.llm = llm
        with suppress(EngineFailed):
            await self._call("update_model", as_nothing, llm.model, llm.context_length)

    async def on_session_start(self, session_id: str, **offered: Any) -> None:
        await self._call("on_session_start", as_nothing, session_id, **offered)

    async def on_session_end(self, session_id: str, messages: list[ChatDict]) -> None:
        await self._call("on_session_end", as_nothing, session_id, messages)

    async def on_session_reset(self) -> None:
        await self._call("on_session_reset", as_nothing)

    async def report(self, usage: Usage) -> None:
        """Tell the usage of a model call. Never waits for a compaction that runs in the background."""
        self._reported.append(
            {
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "total_tokens": usage.total_tokens,
                "cache_read_tokens": usage.cache_read_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
            }
        )
        if not self.busy:
            await self._run("update_from_response", lambda: None, as_nothing)

    async def should_compress(self, tokens: int) -> bool:
        return await self._call("should_compress", as_flag, tokens)

    async def should_compress_preflight(self, messages: list[ChatDict]) -> bool:
        return await self._call("should_compress_preflight", as_flag, messages)

    async def compress(
        self, messages: list[ChatDict], *, tokens: int | None, focus: str | None
    ) -> list[ChatDict]:
        """Raises InvalidCompaction if the engine returned anything but messages."""
        return await self._call("compress", as_messages, messages, current_tokens=tokens, focus_topic=focus)

    async def hint(self, messages: list[ChatDict]) -> str | None:
        return await self._call("hint", as_hint, messages)

    @property
    def known_schemas(self) -> list[ChatDict]:
        """The engine's tools, as far as it was asked for them."""
        return self._schemas or []

    async def tool_schemas(self) -> list[ChatDict]:
        """Return the engine's tools, asked for once: the tool list must not change during a conversation."""
        if self._schemas is None:
            self._schemas = await self._call("get_tool_schemas", as_schemas)
        return self._schemas

    async def handle_tool_call(
        self, name: str, arguments: Mapping[str, Any], messages: list[ChatDict]
    ) -> str:
        return await self._call("handle_tool_call", as_text, name, dict(arguments), messages=messages)

    async def get_status(self) -> dict[str, str]:
        """Return the engine's own status values, without those that every engine has."""
        return await self._call("get_status", as_status)

    async def problem(self) -> str:
        """Return the reason why the engine cannot work; empty if it can."""
        return await self._call("problem", as_hint) or ""

    # How a call is made

    async def _call(self, method: str, check: Callable[[Any], T], *given: Any, **offered: Any) -> T:
        return await self._run(method, partial(self._method, method, *given, **offered), check)

    async def _run(self, method: str, work: Callable[[], object], check: Callable[[Any], T]) -> T:
        self._callers += 1
        is_wanted = asyncio.Event()
        is_wanted.set()
        try:
            await self._free.acquire()
            # The engine is free when its thread is done, not when a cancelled caller stops waiting for it.
            in_thread = partial(self._in_thread, method, work, check)
            watched = asyncio.create_task(self._watched(method, in_thread, is_wanted))
            watched.add_done_callback(mark_exception_seen)
            value: T = await asyncio.shield(watched)
            return value
        except asyncio.CancelledError:
            is_wanted.clear()
            raise
        finally:
            self._callers -= 1

    async def _watched(self, method: str, work: Callable[[], _Results], is_wanted: asyncio.Event) -> Any:
        """Run a call until its deadline, even if the caller is cancelled; a failure then is not the engine's."""
        seconds = self._seconds[method]
        try:
            if self.is_abandoned:
                raise EngineFailed("It did not return from an earlier call.", method=self._hung_in)
            try:
                ended = run_in_daemon_thread(work, f"context engine: {method}")
            except RuntimeError as no_thread:
                log.warning("engine.no_thread", method=method, error=str(no_thread))
                raise self._noted(EngineFailed("No thread can be started.", method=method)) from None
            await _wait(ended, seconds)
            self._hung_in = "" if ended.done() else method
        finally:
            self._free.release()
        if self.is_abandoned:
            log.warning("engine.abandoned", method=method, seconds=seconds)
            how = f"`{method}` took longer than {seconds:g} seconds, so the engine is replaced."
            raise self._noted(EngineFailed(how, method=method))
        if (error := ended.exception()) is not None:
            log.warning("engine.failed", method=method, how="cannot be logged", error=type(error).__name__)
            raise self._noted(EngineFailed(f"`{method}` raised an error.", method=method))
        results = ended.result()
        self.state = EngineState(
            **{name: value for name, value in results.values.items() if name in _ATTRIBUTES}
        )
        for member, failure in results.errors.items():
            if isinstance(failure, EngineFailed) and (member != method or is_wanted.is_set()):
                self._noted(failure)
        for member in results.values.keys() - results.errors.keys() - {"compress"}:
            self._on_success(member)
        if method in results.errors:
            raise results.errors[method]
        return results.values[method]

    def _noted(self, failure: EngineFailed) -> EngineFailed:
        if failure.method not in _QUIET or self.is_abandoned:
            self._on_failure(failure)
        return failure

    # In the engine's thread. Only logging the engine's own error may raise here: see `_watched`.

    def _in_thread(self, method: str, work: Callable[[], object], check: Callable[[Any], object]) -> _Results:
        """Report usage, make the call and read the attributes."""
        results = _Results()
        reported, self._reported = self._reported, []
        for usage in reported:
            tell = partial(self._method, "update_from_response", usage)
            self._try("update_from_response", tell, as_nothing, results)
        self._try(method, work, check, results)
        if "__init__" not in results.errors:
            for name, check_attribute in _ATTRIBUTES.items():
                self._try(name, partial(getattr, self.engine, name), check_attribute, results)
        return results

    def _method(self, name: str, *given: Any, **offered: Any) -> object:
        """Call a method of the engine with copies of the arguments that it declares."""
        return call_accepted(getattr(self.engine, name), *copied(list(given)), **copied(offered))

    def _try(
        self, member: str, work: Callable[[], object], check: Callable[[Any], object], results: _Results
    ) -> None:
        how = "raised an error"
        try:
            with foreign_code(InvalidCompaction):
                value = work()
                how = "returned a value that cannot be used"
                results.values[member] = check(_no_coroutine(value))
        except InvalidCompaction as error:
            results.errors[member] = error
        except ForeignError as failure:
            # Logged here, because the error's `__str__` is foreign code that may raise or hang.
            shown = None if member in self._failing else failure.error
            self._failing.add(member)
            kind = type(failure.error).__name__
            log.warning("engine.failed", method=member, how=how, error=kind, exc_info=shown)
            results.errors[member] = EngineFailed(f"`{member}` {how}.", method=member)


async def _wait(ended: asyncio.Future[Any], seconds: float) -> None:
    """Wait for the call or its deadline. Waiting for a model or a blocked event loop does not count."""
    left, longest = seconds, time.monotonic() + _LONGEST
    while not ended.done() and left > 0 and time.monotonic() < longest:
        tick = min(max(left, _SHORTEST_TICK), _TICK)
        asked = auxiliary_client.asked_seconds()
        await asyncio.wait([ended], timeout=tick)
        left -= max(0.0, tick - (auxiliary_client.asked_seconds() - asked))


def _no_coroutine(value: object) -> object:
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("Methods of an engine are plain functions, not `async def`.")
    return value


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def call_accepted(function: Callable[..., T], *given: Any, **offered: Any) -> T:
    """Call a function with as many of `given` and `offered` as it declares."""
    parameters = inspect.signature(function).parameters.values()
    if all(parameter.kind is not inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
        given = given[: sum(parameter.kind in _BY_PLACE for parameter in parameters)]
    return function(*given, **accepted_kwargs(function, offered))


def accepted_kwargs(function: Callable[..., Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    """Return the offered arguments that the function declares; all if it has `**kwargs`."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return dict(offered)
    names = {parameter.name for parameter in parameters if parameter.kind in _BY_NAME}
    return {name: value for name, value in offered.items() if name in names}
