"""A server that speaks Anthropic's messages API, with its rules, its errors and its prompt cache."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.fakes.anthropic.cache import Block, PromptCache
from tests.fakes.anthropic.rules import blocks_of, check_request
from tests.fakes.model_server import Frame, ModelServer, Refused
from tests.fakes.script import Call, Failure, Reply, compact, count_tokens

_ERRORS = {
    400: ("invalid_request_error", "Your request is not valid."),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "There is an issue with your billing."),
    403: ("permission_error", "Your API key does not have permission to use the specified resource."),
    404: ("not_found_error", "model"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your organization's rate limit."),
    500: ("api_error", "Internal server error"),
    529: ("overloaded_error", "Overloaded"),
}
_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


class FakeAnthropic(ModelServer):
    """POST /v1/messages.

    The prompt's tokens are those of its blocks (each tool, each system block, each content block) as
    compact JSON without markers. `clock` drives the cache's lifetimes; `minimum_tokens` is the shortest
    prefix it keeps.
    """

    path = "/v1/messages"

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, minimum_tokens: int = 1024, **options: Any
    ) -> None:
        super().__init__(**options)
        self._cache = PromptCache(clock=clock, minimum_tokens=minimum_tokens)

    @property
    def base_url(self) -> str:
        return self.url

    def key_of(self, headers: Mapping[str, str]) -> str | None:
        return headers.get("x-api-key")

    def check(self, body: dict[str, Any], headers: Mapping[str, str]) -> None:
        if "anthropic-version" not in headers:
            raise Refused("anthropic-version: header is required")
        check_request(body)

    def account(self, body: dict[str, Any]) -> dict[str, Any]:
        blocks = _cache_blocks(body)
        total = sum(block.tokens for block in blocks)
        if total > self.context_length:
            raise Refused(f"prompt is too long: {total} tokens > {self.context_length} maximum")
        counted = self._cache.account(blocks)
        return {
            "input_tokens": counted.fresh,
            "cache_creation_input_tokens": counted.written_5m + counted.written_1h,
            "cache_read_input_tokens": counted.read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": counted.written_5m,
                "ephemeral_1h_input_tokens": counted.written_1h,
            },
            "service_tier": "standard",
        }

    def whole(self, body: dict[str, Any], reply: Reply, usage: dict[str, Any]) -> dict[str, Any]:
        usage["output_tokens"] = reply.tokens
        content: list[dict[str, Any]] = (
            [{"type": "text", "text": reply.whole_text}] if reply.whole_text else []
        )
        # Whole answers hold parsed arguments, so broken JSON can only be scripted for streams.
        content += [{**self._tool_use(call), "input": json.loads(call.text)} for call in reply.tool_calls]
        return {
            **self._envelope(body),
            "content": content,
            "stop_reason": _stop_reason(reply),
            "usage": usage,
        }

    def frames(self, body: dict[str, Any], reply: Reply, usage: dict[str, Any]) -> list[Frame]:
        usage["output_tokens"] = reply.tokens
        start = {
            **self._envelope(body),
            "content": [],
            "stop_reason": None,
            "usage": {**usage, "output_tokens": 1},
        }
        frames = [_event("message_start", message=start), _event("ping")]
        index = 0
        if reply.pieces:
            frames += _text_block(index, reply)
            index += 1
        for at, call in enumerate(reply.tool_calls, start=index):
            frames += self._tool_block(at, call)
        delta = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
        frames.append(_event("message_delta", delta=delta, usage={"output_tokens": reply.tokens}))
        return [*frames, _event("message_stop")]

    def _tool_block(self, index: int, call: Call) -> Iterator[Frame]:
        yield _event("content_block_start", index=index, content_block=self._tool_use(call))
        for piece in call.pieces:
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield _event("content_block_delta", piece=True, index=index, delta=delta)
        yield _event("content_block_stop", index=index)

    def _tool_use(self, call: Call) -> dict[str, Any]:
        return {
            "type": "tool_use",
            "id": call.id or f"toolu_{next(self.numbers)}",
            "name": call.name,
            "input": {},
        }

    def _envelope(self, body: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": f"msg_{next(self.numbers)}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "stop_sequence": None,
        }

    def error_body(self, failure: Failure) -> dict[str, Any]:
        kind, message = _ERRORS.get(failure.status, _ERRORS[500])
        error = {"type": failure.code or kind, "message": failure.message or message}
        return {"type": "error", "error": error, "request_id": f"req_{next(self.numbers)}"}

    def error_frame(self, failure: Failure) -> Frame:
        return _event("error", error=self.error_body(failure)["error"])

    def overflow_failure(self) -> Failure:
        limit = self.context_length
        return Failure(400, f"prompt is too long: {limit + 1} tokens > {limit} maximum")

    def last_user_text(self, body: dict[str, Any]) -> str:
        blocks = next(
            (blocks_of(m["content"]) for m in reversed(body["messages"]) if m["role"] == "user"), []
        )
        return next((block["text"] for block in reversed(blocks) if block["type"] == "text"), "")


def _text_block(index: int, reply: Reply) -> Iterator[Frame]:
    yield _event("content_block_start", index=index, content_block={"type": "text", "text": ""})
    for piece in reply.pieces:
        yield _event(
            "content_block_delta", piece=True, index=index, delta={"type": "text_delta", "text": piece}
        )
    yield _event("content_block_stop", index=index)


def _cache_blocks(body: dict[str, Any]) -> list[Block]:
    """All that must match for a hit. Another model changes everything, another tool_choice the messages."""
    blocks = [_block(tool, "tool", prefix=body["model"]) for tool in body.get("tools", [])]
    blocks += [_block(block, "system", prefix=body["model"]) for block in blocks_of(body.get("system", []))]
    prefix = body["model"] + compact(body.get("tool_choice"))
    for message in body["messages"]:
        for block in blocks_of(message["content"]):
            blocks.append(_block(block, block["type"], prefix=prefix + message["role"]))
    return blocks


def _block(block: dict[str, Any], kind: str, *, prefix: str) -> Block:
    content = compact({key: value for key, value in block.items() if key != "cache_control"})
    marker = block.get("cache_control")
    return Block(prefix + content, count_tokens(content), kind, marker.get("ttl", "5m") if marker else None)


def _stop_reason(reply: Reply) -> str:
    return _STOP_REASONS[reply.finish_reason]


def _event(kind: str, *, piece: bool = False, **data: Any) -> Frame:
    return Frame(f"event: {kind}\ndata: {compact({'type': kind, **data})}\n\n".encode(), piece)
