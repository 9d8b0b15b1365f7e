"""LLM client that uses litellm: one model, one attempt. Retries and fallbacks are in `agent.llm.retry`."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterable
from contextvars import copy_context
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakSet

from agent.errors import KeyMissing, ModelError, NetworkFailed, StreamCut
from agent.ids import new_id
from agent.llm import ChatRequest, Completion, LLMEvent, TextChunk, Usage
from agent.messages import ChatDict, ToolCall
from gateway.models.errors import translate
from gateway.models.litellm_runtime import Library, close_connections, load_litellm

_IMAGE_PLACEHOLDER: ChatDict = {"type": "text", "text": "[an image that this model cannot see]"}


def prepare_messages(messages: Iterable[ChatDict], *, images: bool = True) -> list[ChatDict]:
    """Copy the messages, because litellm changes them in place.

    Without `images`, replace them: a conversation may contain images from another model, and this model's provider
    rejects them.
    """
    copies = []
    for message in messages:
        copy = dict(message)
        if copy.get("tool_calls"):
            copy["tool_calls"] = [_with_json_arguments(call) for call in copy["tool_calls"]]
        if not images and isinstance(parts := copy.get("content"), list):
            copy["content"] = [part if part.get("type") == "text" else _IMAGE_PLACEHOLDER for part in parts]
        copies.append(copy)
    return copies


def _with_json_arguments(call: ChatDict) -> ChatDict:
    """Return the call with a JSON object as its arguments.

    Broken JSON that a model once wrote stays in the history. Anthropic accepts only objects, and litellm fails on
    anything else, so every later call would fail.
    """
    function = call["function"]
    try:
        if isinstance(json.loads(function["arguments"]), dict):
            return dict(call)
    except ValueError:
        pass
    return {**call, "function": {**function, "arguments": json.dumps({"unreadable": function["arguments"]})}}


async def send(library: Library, **arguments: Any) -> Any:
    """Call `acompletion`. A cancel at any moment closes the request."""
    context = copy_context()
    context.run(library.internal_call.set, True)
    call = asyncio.create_task(library.litellm.acompletion(**arguments), context=context)
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await _cancel_call(call)
        raise


async def _cancel_call(call: asyncio.Task[Any]) -> None:
    call.cancel()
    await asyncio.wait([call])
    answered = not call.cancelled() and call.exception() is None
    if answered and hasattr(stream := call.result(), "completion_stream"):
        # The response of a stream is reachable only after the first read.
        reading = asyncio.create_task(anext(stream))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        await close_stream(stream)


async def close_stream(stream: Any) -> None:
    """Close the HTTP response of a stream; litellm's own close does not do that for Anthropic and others."""
    source = stream.completion_stream
    await stream.aclose()
    lines = getattr(source, "async_response_iterator", None)
    if lines is not None and hasattr(lines, "aclose"):
        await lines.aclose()


_NO_KEY = "not-needed"
"""Sent to a `base_url` that has no key: without it litellm would send the key of the real provider there."""

_open_clients: WeakSet[LiteLLMClient] = WeakSet()
"""litellm shares its connections between clients, so the last client that closes closes them."""

_THINKS_OR_USES_TOOLS = re.compile(r"openai/gpt-(5\.[4-9]|[6-9])")
"""OpenAI's newest models reject tools on the chat route while they reason. litellm would use another route, which
needs a package that is not part of Hermes."""


def endpoint_of(base_url: str | None) -> str:
    """Return host, port and path of an address, without user name and password."""
    parts = urlsplit(base_url or "")
    return f"{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


@dataclass(eq=False, repr=False)
class LiteLLMClient:
    model: str
    _: KW_ONLY
    context_length: int
    supports_tools: bool
    sees_images: bool = True
    api_key: str | None = None
    base_url: str | None = None
    max_tokens: int | None = None
    is_free: bool = False
    """The cost is 0 unless the provider reports one."""
    timeout: float = 300.0
    """Seconds without data from the provider."""
    litellm_model: str = ""
    """litellm's name of the model, if it has another one."""
    missing_key: str = ""
    """The variable that must be set first."""

    def __post_init__(self) -> None:
        self.litellm_model = self.litellm_model or self.model
        _open_clients.add(self)

    @property
    def endpoint(self) -> str:
        return endpoint_of(self.base_url)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[LLMEvent, None]:
        library = await load_litellm()
        stream = await self._send(library, request, stream=True, stream_options={"include_usage": True})
        answer = ResponseBuilder()
        try:
            async for chunk in stream:
                if text := answer.add(chunk):
                    yield TextChunk(text)
                if answer.usage is not None:
                    break
                # Buffered chunks arrive without waiting: let other conversations run in between.
                await asyncio.sleep(0)
        except library.errors as exc:
            raise self._stream_error(exc, answer) from exc
        finally:
            await close_stream(stream)
        # litellm invents a finish reason in the chunks, but keeps the real one.
        if not (stream.received_finish_reason or stream.intermittent_finish_reason):
            raise StreamCut(
                f"{self.model} ended the stream without a finish reason.", partial_text=answer.text
            )
        yield self._completion(library, answer)

    async def complete(self, request: ChatRequest) -> Completion:
        library = await load_litellm()
        response = await self._send(library, request)
        return self._completion(library, build_whole(response))

    async def close(self) -> None:
        _open_clients.discard(self)
        if not _open_clients:
            await close_connections()

    async def _send(self, library: Library, request: ChatRequest, **how: Any) -> Any:
        if self.missing_key:
            raise KeyMissing(f"{self.model} needs {self.missing_key}.")
        try:
            return await send(library, **self._arguments(request), **how)
        except library.errors as exc:
            raise translate(exc, model=self.model, api_key=self.api_key) from exc

    def _arguments(self, request: ChatRequest) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self.litellm_model,
            "messages": prepare_messages(request.messages, images=self.sees_images),
            "api_key": self.api_key or (_NO_KEY if self.base_url else None),
            "api_base": self.base_url,
            "max_tokens": request.max_tokens or self.max_tokens,
            "temperature": request.temperature,
            "timeout": self.timeout,
            "num_retries": 0,
            "max_retries": 0,
            # Models that do not know a parameter, such as temperature, answer without it.
            "drop_params": True,
            # Otherwise litellm needs the package `mcp` if there are tools.
            "_skip_mcp_handler": True,
        }
        if request.tools and self.supports_tools:
            arguments["tools"] = list(request.tools)
            if not self.base_url and _THINKS_OR_USES_TOOLS.match(self.litellm_model):
                arguments["reasoning_effort"] = "none"
            if request.tool_choice == "none":
                arguments["tool_choice"] = "none"
        return {name: value for name, value in arguments.items() if value is not None}

    def _stream_error(self, exc: Exception, answer: ResponseBuilder) -> ModelError:
        """Translate a failure during a stream. After the first text, a transient error is a cut stream."""
        error = translate(exc, model=self.model, api_key=self.api_key)
        if isinstance(error, NetworkFailed) or (answer.text and error.transient):
            return StreamCut(error.detail, partial_text=answer.text)
        return error

    def _completion(self, library: Library, answer: ResponseBuilder) -> Completion:
        usage = read_usage(library.litellm, answer.usage, model=self.litellm_model)
        if usage.cost_usd is None and self.is_free:
            usage = replace(usage, cost_usd=0.0)
        return answer.completion(model=self.model, usage=usage)


_FINISH_REASONS = {
    "stop": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}


@dataclass(slots=True)
class _PartialToolCall:
    """A tool call whose parts are still arriving."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class ResponseBuilder:
    """An answer that grows with each chunk."""

    text: str = ""
    finish_reason: str | None = None
    usage: Any = None
    """litellm's usage object; it comes with the last chunk."""
    calls: list[_PartialToolCall] = field(default_factory=list)
    _by_index: dict[int, _PartialToolCall] = field(default_factory=dict)

    def add(self, chunk: Any) -> str:
        """Add a chunk and return its text."""
        self.usage = getattr(chunk, "usage", None) or self.usage
        if not chunk.choices:
            return ""
        choice = chunk.choices[0]
        self.finish_reason = choice.finish_reason or self.finish_reason
        for piece in choice.delta.tool_calls or ():
            self._add_piece(piece)
        text: str = choice.delta.content or ""
        self.text += text
        return text

    def _add_piece(self, piece: Any) -> None:
        """Add a piece to its call. Some servers number every call 0; there a new id begins a new call."""
        index = piece.index or 0
        call = self._by_index.get(index)
        if call is None or (piece.id and call.id and piece.id != call.id):
            call = self._by_index[index] = _PartialToolCall()
            self.calls.append(call)
        call.id = call.id or piece.id or ""
        call.name = call.name or piece.function.name or ""
        call.arguments += piece.function.arguments or ""

    def completion(self, *, model: str, usage: Usage) -> Completion:
        # Models omit the arguments of tools without parameters.
        calls = tuple(
            ToolCall(call.id or new_id("call"), call.name, call.arguments or "{}") for call in self.calls
        )
        reason = _FINISH_REASONS.get(self.finish_reason or "", "stop")
        if calls and reason == "stop":
            reason = "tool_calls"
        return Completion(self.text, calls, reason, usage, model)


def build_whole(response: Any) -> ResponseBuilder:
    """Read an answer that came in one piece."""
    choice = response.choices[0]
    calls = [
        _PartialToolCall(call.id, call.function.name, call.function.arguments)
        for call in choice.message.tool_calls or ()
    ]
    return ResponseBuilder(
        choice.message.content or "", choice.finish_reason, getattr(response, "usage", None), calls
    )


def read_usage(litellm: Any, usage: Any, *, model: str) -> Usage:
    """Convert litellm's usage. All zero, without a price, if the provider reported nothing."""
    if usage is None or not usage.prompt_tokens:
        return Usage()
    details = getattr(usage, "prompt_tokens_details", None)
    return Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens or 0,
        cache_read_tokens=_first(details, "cached_tokens") or _first(usage, "cache_read_input_tokens"),
        cache_write_tokens=_first(details, "cache_creation_tokens")
        or _first(usage, "cache_creation_input_tokens"),
        cost_usd=_cost(litellm, usage, model),
    )


def _first(source: Any, name: str) -> int:
    return getattr(source, name, None) or 0


def _cost(litellm: Any, usage: Any, model: str) -> float | None:
    """Return the cost that the provider or litellm reports, else the cost by the price table, else None."""
    reported = getattr(usage, "cost", None)
    if reported is not None:
        return float(reported)
    if model not in litellm.model_cost and model.partition("/")[2] not in litellm.model_cost:
        return None
    return float(sum(litellm.cost_per_token(model=model, usage_object=usage)))
