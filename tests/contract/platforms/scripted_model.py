"""The model of the contract: what it answers depends on words in the message it is asked about."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.fakes.model_server import Seen
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Failure, Reply

PATIENCE = 30.0
"""Seconds that anything awaited may take; generous, for a Hermes on a busy machine imports its model library late."""

Step = Reply | Failure


class Model:
    """A script for an `FakeOpenAI`. What nothing was planned for is echoed, see `echo`."""

    def __init__(self, server: FakeOpenAI) -> None:
        self._server = server
        self._plans: dict[str, deque[Step]] = {}
        self._first = 0
        server.script(self._next_step)

    def forget(self) -> None:
        """A new scenario: nothing is planned, and what was asked before does not count."""
        self._plans.clear()
        self._first = len(self._server.requests)
        self._server.release()

    def answers(self, words: str, *steps: str | Step) -> None:
        """The next requests whose newest message holds these words get these answers, one after the other."""
        planned = self._plans.setdefault(words, deque())
        planned.extend(_at_once(step) if isinstance(step, str) else step for step in steps)

    def release(self) -> None:
        """Answers that are held back go on."""
        self._server.release()

    async def holds(self) -> None:
        """Until an answer is held back."""
        await self._server.waiting()

    async def asked(self, words: str, count: int = 1) -> Seen:
        """Until so many requests had these words in their newest message; gives the last of them."""
        await self.until(lambda: len(self.requests(words)) >= count)
        return self.requests(words)[count - 1]

    async def until(self, condition: Callable[[], bool]) -> None:
        await asyncio.wait_for(asyncio.wrap_future(self._server.watch.until(condition)), PATIENCE)

    def requests(self, words: str = "") -> list[Seen]:
        """Those of this scenario whose newest message holds these words."""
        return [seen for seen in self._server.requests[self._first :] if words in newest(seen)]

    def was_told(self, words: str) -> bool:
        """Whether any request of this scenario held these words anywhere."""
        return any(words in str(seen.body["messages"]) for seen in self._server.requests[self._first :])

    @property
    def disconnects(self) -> int:
        return self._server.disconnects

    async def disconnected(self, count: int) -> None:
        """Until so many answers were no longer listened to."""
        await self.until(lambda: self._server.disconnects >= count)

    @property
    def refusals(self) -> list[str]:
        return self._server.refusals

    def _next_step(self, seen: Seen) -> Step:
        text = newest(seen)
        for words, steps in self._plans.items():
            if words in text and steps:
                return steps.popleft()
        return _at_once(echo(text))


def echo(text: str) -> str:
    """The end of what was said: so short that a chat shows it in one go instead of letting it grow."""
    return text[-23:].strip()


def _at_once(text: str) -> Reply:
    """Answer in one chunk, because the test does not watch the stream."""
    return Reply(chunks=[text])


def newest(seen: Seen) -> str:
    """What a person said last, as the model read it."""
    return heard(seen)[-1] if heard(seen) else ""


def heard(seen: Seen) -> list[str]:
    """Everything people said, as the model read it in this request."""
    return [_text(message["content"]) for message in seen.body["messages"] if message["role"] == "user"]


def tool_results(seen: Seen) -> list[str]:
    return [_text(message["content"]) for message in seen.body["messages"] if message["role"] == "tool"]


def images(seen: Seen) -> list[dict[str, Any]]:
    """The pictures in the newest message of a person."""
    content = next(m["content"] for m in reversed(seen.body["messages"]) if m["role"] == "user")
    return [part for part in content if part["type"] == "image_url"] if isinstance(content, list) else []


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or ())
