"""A model that says what it is told: for tests of anything that talks to a model, without a server or a network.

    llm = ScriptedLLM(
        [
            ["Let me look.", ToolCall("call_1", "read_file", '{"path": "notes.txt"}')],
            "The note says: buy milk.",
            RateLimited(retry_after=2),
        ]
    )

Each request plays the next step of the script. A step is

- a text, streamed word by word;
- a list of what happens in order: texts (each one piece), tool calls, errors (raised at that point) and
  `asyncio.Event`s (waited for, so that a test can look in between);
- an error, raised before anything is said;
- a whole `Completion`, for full control over usage and finish reason;
- a function of the request that returns one of these.

Every request is kept in `requests`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from math import ceil

from agent.errors import ModelError
from agent.llm import ChatRequest, Completion, LLMEvent, TextChunk, Usage
from agent.messages import ToolCall

Moment = str | ToolCall | ModelError | asyncio.Event
"""One thing that happens during an answer."""

Step = str | ModelError | Completion | Sequence[Moment] | Callable[[ChatRequest], "Step"]


class ScriptedLLM:
    def __init__(
        self,
        steps: Iterable[Step] = (),
        *,
        model: str = "scripted/model",
        context_length: int = 128_000,
        supports_tools: bool = True,
        endpoint: str = "",
    ) -> None:
        self.requests: list[ChatRequest] = []
        self.closed = False
        self.model = model
        self.context_length = context_length
        self.supports_tools = supports_tools
        self.endpoint = endpoint
        self._steps = list(steps)

    def then(self, *steps: Step) -> None:
        """Add steps to the end of the script."""
        self._steps.extend(steps)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[LLMEvent, None]:
        step = self._next_step(request)
        text, calls = "", []
        for moment in _moments(step):
            if isinstance(moment, ModelError):
                raise moment
            if isinstance(moment, asyncio.Event):
                await moment.wait()
            elif isinstance(moment, ToolCall):
                calls.append(moment)
            else:
                text += moment
                yield TextChunk(moment)
        yield step if isinstance(step, Completion) else self._completion(request, text, tuple(calls))

    async def complete(self, request: ChatRequest) -> Completion:
        events = [event async for event in self.stream(request)]
        completion = events[-1]
        assert isinstance(completion, Completion)
        return completion

    async def close(self) -> None:
        self.closed = True

    def _next_step(self, request: ChatRequest) -> Step:
        self.requests.append(request)
        if not self._steps:
            raise AssertionError(
                f"The script has no step for request {len(self.requests)}; add one to ScriptedLLM."
            )
        step = self._steps.pop(0)
        while callable(step):
            step = step(request)
        return step

    def _completion(self, request: ChatRequest, text: str, calls: tuple[ToolCall, ...]) -> Completion:
        """Count tokens as bytes / 4, of the request and of the answer; the price is zero."""
        said = text + "".join(call.name + call.arguments for call in calls)
        usage = Usage(_tokens(json.dumps([request.messages, request.tools])), _tokens(said), cost_usd=0.0)
        return Completion(text, calls, "tool_calls" if calls else "stop", usage, self.model)


def _moments(step: Step) -> Sequence[Moment]:
    if isinstance(step, Completion):
        step = step.text
    if isinstance(step, str):
        return re.findall(r"\s*\S+|\s+\Z", step)
    if isinstance(step, ModelError):
        return [step]
    assert not callable(step)
    return step


def _tokens(text: str) -> int:
    return ceil(len(text.encode()) / 4)
