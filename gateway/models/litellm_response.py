"""Builds a Completion from litellm's chunks or response."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agent.ids import new_id
from agent.llm import Completion, Usage
from agent.messages import ToolCall

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
