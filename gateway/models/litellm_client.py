"""LLM client that uses litellm: one model, one attempt. Retries and fallbacks are in `agent.llm.retry`."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterable
from contextvars import copy_context
from dataclasses import dataclass, field, replace
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
    copies = [
        _with_json_calls(message) if message.get("tool_calls") else dict(message) for message in messages
    ]
    return copies if images else [_without_images(message) for message in copies]


def _without_images(message: ChatDict) -> ChatDict:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {
        **message,
        "content": [part if part.get("type") == "text" else _IMAGE_PLACEHOLDER for part in content],
    }


def _with_json_calls(message: ChatDict) -> ChatDict:
    return {**message, "tool_calls": [_with_json_arguments(call) for call in message["tool_calls"]]}


def _with_json_arguments(call: ChatDict) -> ChatDict:
    """Return the call with a JSON object as its arguments.

    Broken JSON that a model once wrote stays in the history. Anthropic accepts only objects, and litellm fails on
    anything else, so every later call would fail.
    """
    function = call["function"]
    if _is_object(function["arguments"]):
        return dict(call)
    return {**call, "function": {**function, "arguments": json.dumps({"unreadable": function["arguments"]})}}


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


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
    if answered and hasattr(call.result(), "completion_stream"):
        await _close_unread(call.result())


async def _close_unread(stream: Any) -> None:
    """Close a stream that was never read: its response is reachable only after the first read."""
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


class LiteLLMClient:
    def __init__(
        self,
        model: str,
        *,
        context_length: int,
        supports_tools: bool,
        sees_images: bool = True,
        api_key: str | None = None,
        base_url: str | None = None,
        max_tokens: int | None = None,
        is_free: bool = False,
        timeout: float = 300.0,
        litellm_model: str | None = None,
        missing_key: str = "",
    ) -> None:
        """`is_free`: the cost is 0 unless reported. `timeout` limits the time without data from the provider.
        `litellm_model` is litellm's name of the model, `missing_key` the variable that must be set first."""
        self._model = model
        self._context_length = context_length
        self._supports_tools = supports_tools
        self._sees_images = sees_images
        self._api_key = api_key
        self._base_url = base_url
        self._max_tokens = max_tokens
        self._is_free = is_free
        self._timeout = timeout
        self._litellm_model = litellm_model or model
        self._missing_key = missing_key
        _open_clients.add(self)

    @property
    def model(self) -> str:
        return self._model

    @property
    def context_length(self) -> int:
        return self._context_length

    @property
    def supports_tools(self) -> bool:
        return self._supports_tools

    @property
    def endpoint(self) -> str:
        return endpoint_of(self._base_url)

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
        if not _has_finished(stream):
            raise StreamCut(
                f"{self._model} ended the stream without a finish reason.", partial_text=answer.text
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
        if self._missing_key:
            raise KeyMissing(f"{self._model} needs {self._missing_key}.")
        try:
            return await send(library, **self._arguments(request), **how)
        except library.errors as exc:
            raise translate(exc, model=self._model, api_key=self._api_key) from exc

    def _arguments(self, request: ChatRequest) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self._litellm_model,
            "messages": prepare_messages(request.messages, images=self._sees_images),
            "api_key": self._api_key or (_NO_KEY if self._base_url else None),
            "api_base": self._base_url,
            "max_tokens": request.max_tokens or self._max_tokens,
            "temperature": request.temperature,
            "timeout": self._timeout,
            "num_retries": 0,
            "max_retries": 0,
            # Models that do not know a parameter, such as temperature, answer without it.
            "drop_params": True,
            # Otherwise litellm needs the package `mcp` if there are tools.
            "_skip_mcp_handler": True,
        }
        if request.tools and self._supports_tools:
            arguments["tools"] = list(request.tools)
            if not self._base_url and _THINKS_OR_USES_TOOLS.match(self._litellm_model):
                arguments["reasoning_effort"] = "none"
            if request.tool_choice == "none":
                arguments["tool_choice"] = "none"
        return {name: value for name, value in arguments.items() if value is not None}

    def _stream_error(self, exc: Exception, answer: ResponseBuilder) -> ModelError:
        """Translate a failure during a stream. After the first text, a transient error is a cut stream."""
        error = translate(exc, model=self._model, api_key=self._api_key)
        if isinstance(error, NetworkFailed) or (answer.text and error.transient):
            return StreamCut(error.detail, partial_text=answer.text)
        return error

    def _completion(self, library: Library, answer: ResponseBuilder) -> Completion:
        usage = read_usage(library.litellm, answer.usage, model=self._litellm_model)
        if usage.cost_usd is None and self._is_free:
            usage = replace(usage, cost_usd=0.0)
        return answer.completion(model=self._model, usage=usage)


def _has_finished(stream: Any) -> bool:
    """Tell whether the provider sent a finish reason. litellm invents one in the chunks, but keeps the real one."""
    return bool(stream.received_finish_reason or stream.intermittent_finish_reason)


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

    def closed(self) -> ToolCall:
        # Models omit the arguments of tools without parameters.
        return ToolCall(self.id or new_id("call"), self.name, self.arguments or "{}")


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
        """Takes a chunk in; returns the text it brought."""
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
        call = self._call_at(piece.index or 0, piece.id)
        call.id = call.id or piece.id or ""
        call.name = call.name or piece.function.name or ""
        call.arguments += piece.function.arguments or ""

    def _call_at(self, index: int, call_id: str | None) -> _PartialToolCall:
        """The call a piece belongs to. Some servers number every call 0; there a new id begins a new call."""
        call = self._by_index.get(index)
        if call is None or (call_id and call.id and call_id != call.id):
            call = self._by_index[index] = _PartialToolCall()
            self.calls.append(call)
        return call

    def completion(self, *, model: str, usage: Usage) -> Completion:
        calls = tuple(call.closed() for call in self.calls)
        return Completion(self.text, calls, _finish_reason(self.finish_reason, calls), usage, model)


def build_whole(response: Any) -> ResponseBuilder:
    """An answer that came in one piece."""
    choice = response.choices[0]
    calls = [
        _PartialToolCall(call.id, call.function.name, call.function.arguments)
        for call in choice.message.tool_calls or ()
    ]
    return ResponseBuilder(
        choice.message.content or "", choice.finish_reason, getattr(response, "usage", None), calls
    )


def _finish_reason(reported: str | None, calls: tuple[ToolCall, ...]) -> str:
    reason = _FINISH_REASONS.get(reported or "", "stop")
    return "tool_calls" if calls and reason == "stop" else reason


def read_usage(litellm: Any, usage: Any, *, model: str) -> Usage:
    """litellm's usage in our terms. All zero, without a price, when the provider reported nothing."""
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
