"""A server that speaks OpenAI's chat completions: as strict as the real one, and as wordy in its errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import zip_longest
from typing import Any

from aiohttp import web

from tests.fakes.model_server import Frame, ModelServer, Refused
from tests.fakes.openai.rules import check_request
from tests.fakes.script import Call, Failure, Reply, compact, count_tokens

CACHE_MINIMUM = 1024
CACHE_STEP = 128

_ERRORS = {
    400: ("invalid_request_error", "Your request is not valid."),
    401: ("invalid_request_error", "Incorrect API key provided. You can find your API key in your account."),
    402: ("insufficient_quota", "Insufficient credits. Add more to continue."),
    403: ("invalid_request_error", "You are not allowed to use this endpoint."),
    404: ("invalid_request_error", "The model does not exist or you do not have access to it."),
    429: ("requests", "Rate limit reached for requests per min (RPM): Limit 3, Used 3, Requested 1."),
    500: ("server_error", "The server had an error while processing your request. Sorry about that!"),
    503: ("server_error", "The engine is currently overloaded, please try again later."),
}
_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


class FakeOpenAI(ModelServer):
    """POST /v1/chat/completions and GET /v1/models.

    The prompt's tokens are those of its tools and messages as compact JSON. Like the real one it caches by
    itself: the longest run of leading messages seen before, from 1,024 tokens on, in steps of 128.
    """

    path = "/v1/chat/completions"

    def __init__(self, *, accepts_cache_control: bool = False, **options: Any) -> None:
        """`accepts_cache_control`: like OpenRouter, which knows Anthropic's markers; OpenAI refuses them."""
        super().__init__(**options)
        self._accepts_cache_control = accepts_cache_control
        self._prefixes: set[str] = set()

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def add_routes(self, app: web.Application) -> None:
        super().add_routes(app)
        app.router.add_get("/v1/models", self._list_models)

    async def _list_models(self, request: web.Request) -> web.Response:
        if self.key_of(request.headers) != self.api_key:
            return web.json_response(self.error_body(Failure(401)), status=401)
        models = [
            {"id": name, "object": "model", "owned_by": "test"} for name in self.models or ("test-model",)
        ]
        return web.json_response({"object": "list", "data": models})

    def key_of(self, headers: Mapping[str, str]) -> str | None:
        return headers.get("Authorization", "").removeprefix("Bearer ")

    def check(self, body: dict[str, Any], headers: Mapping[str, str]) -> None:
        check_request(body, accepts_cache_control=self._accepts_cache_control)

    def account(self, body: dict[str, Any]) -> dict[str, Any]:
        total, cached, digest = 0, 0, sha256(body["model"].encode())
        for part in (compact(value) for value in (body.get("tools", []), *body["messages"])):
            digest.update(part.encode())
            total += count_tokens(part)
            if digest.hexdigest() in self._prefixes:
                cached = total
            self._prefixes.add(digest.hexdigest())
        if total > self.context_length:
            raise Refused(self._overflow_message(total), code="context_length_exceeded")
        cached = cached // CACHE_STEP * CACHE_STEP if cached >= CACHE_MINIMUM else 0
        return {"prompt_tokens": total, "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0}}

    def whole(self, body: dict[str, Any], reply: Reply, usage: dict[str, Any]) -> dict[str, Any]:
        _complete(usage, reply)
        message: dict[str, Any] = {"role": "assistant", "content": reply.whole_text or None, "refusal": None}
        if reply.tool_calls:
            message["tool_calls"] = [self._call(call) for call in reply.tool_calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish_reason}
        return {**self._envelope(body, "chat.completion"), "choices": [choice], "usage": usage}

    def frames(self, body: dict[str, Any], reply: Reply, usage: dict[str, Any]) -> list[Frame]:
        _complete(usage, reply)
        envelope = self._envelope(body, "chat.completion.chunk")
        with_usage = body.get("stream_options", {}).get("include_usage", False)
        if with_usage:
            envelope["usage"] = None

        def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return _event({**envelope, "choices": [choice]})

        frames = [Frame(chunk({"role": "assistant", "content": "", "refusal": None}))]
        frames += [Frame(chunk({"content": piece}), piece=True) for piece in reply.pieces]
        frames += [
            Frame(chunk({"tool_calls": [part]}), piece=begun) for part, begun in self._call_parts(reply)
        ]
        frames.append(Frame(chunk({}, reply.finish_reason)))
        if with_usage:
            frames.append(Frame(_event({**envelope, "choices": [], "usage": usage})))
        return [*frames, Frame(b"data: [DONE]\n\n")]

    def _call_parts(self, reply: Reply) -> Iterator[tuple[dict[str, Any], bool]]:
        """(delta of a call, whether it carries arguments): a head with id and name, then pieces by index."""
        runs = [list(self._one_call_parts(index, call)) for index, call in enumerate(reply.tool_calls)]
        if reply.interleave:
            yield from (part for turn in zip_longest(*runs) for part in turn if part is not None)
        else:
            yield from (part for run in runs for part in run)

    def _one_call_parts(self, index: int, call: Call) -> Iterator[tuple[dict[str, Any], bool]]:
        head = self._call(call)
        yield {"index": index, **head, "function": {"name": call.name, "arguments": ""}}, False
        for piece in call.pieces:
            yield {"index": index, "function": {"arguments": piece}}, True

    def _call(self, call: Call) -> dict[str, Any]:
        function = {"name": call.name, "arguments": call.text}
        return {"id": call.id or f"call_{next(self.numbers)}", "type": "function", "function": function}

    def _envelope(self, body: dict[str, Any], kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{next(self.numbers)}",
            "object": kind,
            "created": 1_760_000_000,
            "model": body["model"],
            "system_fingerprint": None,
        }

    def error_body(self, failure: Failure) -> dict[str, Any]:
        kind, message = _ERRORS.get(failure.status, _ERRORS[500])
        code = failure.code or _CODES.get(failure.status)
        if failure.code == "insufficient_quota":
            kind = failure.code
        return {"error": {"message": failure.message or message, "type": kind, "param": None, "code": code}}

    def error_frame(self, failure: Failure) -> Frame:
        return Frame(_event(self.error_body(failure)))

    def overflow_failure(self) -> Failure:
        return Failure(400, self._overflow_message(self.context_length + 1), "context_length_exceeded")

    def _overflow_message(self, tokens: int) -> str:
        return (
            f"This model's maximum context length is {self.context_length} tokens. However, your messages "
            f"resulted in {tokens} tokens. Please reduce the length of the messages."
        )

    def last_user_text(self, body: dict[str, Any]) -> str:
        content = next((m["content"] for m in reversed(body["messages"]) if m["role"] == "user"), "")
        if isinstance(content, str):
            return content
        return "".join(part.get("text", "") for part in content)


def _complete(usage: dict[str, Any], reply: Reply) -> None:
    usage["completion_tokens"] = reply.tokens
    usage["total_tokens"] = usage["prompt_tokens"] + reply.tokens


def _event(data: dict[str, Any]) -> bytes:
    return f"data: {compact(data)}\n\n".encode()
