"""Engines that do everything wrong, one method at a time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from agent.context_engine import ContextEngine
from agent.messages import ChatDict

Deed = Callable[..., Any]
"""Replaces the work of a method; receives its arguments."""

SCHEMA = {
    "name": "count_word",
    "description": "Counts a word.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
}


class Unprintable(Exception):
    """An error that cannot even be shown."""

    def __str__(self) -> str:
        raise SystemExit("no text")

    __repr__ = __str__


ERRORS: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("a bug"),
    "StopIteration": StopIteration,
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "Unprintable": Unprintable,
}


def raising(make: Callable[[], BaseException]) -> Deed:
    def deed(*args: Any, **kwargs: Any) -> Any:
        raise make()

    return deed


def returning(value: object) -> Deed:
    return lambda *args, **kwargs: value


class Hanging:
    """A deed that does not end before it is released."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.release.wait(60)


def unawaited(*args: Any, **kwargs: Any) -> Any:
    async def later() -> None:
        """Never awaited."""

    return later()


def vandal(*args: Any, **kwargs: Any) -> Any:
    """Corrupt the messages it was given."""
    for given in (*args, *kwargs.values()):
        if isinstance(given, list):
            for message in given:
                for part in message["content"] if isinstance(message["content"], list) else ():
                    part.clear()
                message.clear()
            given.clear()
        elif isinstance(given, dict):
            given.clear()
    raise ValueError("and then it fails")


def newest_request(messages: list[ChatDict]) -> ChatDict:
    return next(message for message in reversed(messages) if message["role"] == "user")


def without_words(messages: list[ChatDict]) -> list[ChatDict]:
    """The newest request keeps its id and loses its content."""
    return [messages[0], {**newest_request(messages), "content": None}]


def other_words(messages: list[ChatDict]) -> list[ChatDict]:
    return [messages[0], {**newest_request(messages), "content": "x"}]


def other_role(messages: list[ChatDict]) -> list[ChatDict]:
    return [messages[0], {**newest_request(messages), "role": "assistant"}]


def larger(messages: list[ChatDict]) -> list[ChatDict]:
    return [*messages[:-1], {"role": "assistant", "content": "A summary. " * 40}, newest_request(messages)]


def with_call(**changed: str) -> Deed:
    """A new call, and its result, in front of the newest request."""
    call = {"id": "c9", "name": "look", "arguments": "{}"} | changed

    def deed(messages: list[ChatDict]) -> list[ChatDict]:
        function = {"name": call["name"], "arguments": call["arguments"]}
        calls = [{"id": call["id"], "type": "function", "function": function}]
        return [
            messages[0],
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": call["id"], "content": "x"},
            newest_request(messages),
        ]

    return deed


def with_message(message: ChatDict) -> Deed:
    """A new message in front of the newest request."""
    return lambda messages: [messages[0], message, newest_request(messages)]


BAD_LISTS: dict[str, Deed] = {
    "request without words": without_words,
    "request with other words": other_words,
    "request of another role": other_role,
    "larger list": larger,
    "empty call id": with_call(id=""),
    "impossible tool name": with_call(name="no such tool!"),
    "arguments that are no JSON": with_call(arguments="not json"),
    "arguments that are no object": with_call(arguments="[1]"),
    "unknown part": with_message({"role": "user", "content": [{"type": "banana"}]}),
    "no parts": with_message({"role": "user", "content": []}),
    "empty user message": with_message({"role": "user", "content": " "}),
    "empty answer": with_message({"role": "assistant", "content": ""}),
    "empty system prompt": lambda messages: [{"role": "system", "content": ""}, newest_request(messages)],
}
"""Lists of messages that no provider would take, or that lose the person's words."""


class Hostile(ContextEngine):
    """An engine that works except in the methods of `deeds`. It compacts at 400 tokens, has a tool and a hint."""

    threshold_tokens = 400

    def __init__(self, deeds: Mapping[str, Deed]) -> None:
        self.deeds = deeds
        self.compressed = 0
        self.sessions: list[str] = []
        self._do("__init__", None)

    def _do(self, method: str, otherwise: Any, *args: Any, **kwargs: Any) -> Any:
        return self.deeds[method](*args, **kwargs) if method in self.deeds else otherwise

    @property
    def name(self) -> str:
        return self._do("name", "hostile")

    def update_from_response(self, usage: dict[str, Any]) -> None:
        return self._do("update_from_response", None, usage)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return self._do("should_compress", (prompt_tokens or 0) >= 400, prompt_tokens)

    def compress(
        self, messages: list[ChatDict], current_tokens: int | None = None, focus_topic: str | None = None
    ) -> list[ChatDict]:
        self.compressed += 1
        newest = max(index for index, message in enumerate(messages) if message["role"] == "user")
        return self._do("compress", [messages[0], *messages[newest:]], messages)

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:
        self.sessions.append(session_id)
        return self._do("on_session_start", None, session_id, **kwargs)

    def on_session_end(self, session_id: str, messages: list[ChatDict]) -> None:
        return self._do("on_session_end", None, session_id, messages)

    def on_session_reset(self) -> None:
        return self._do("on_session_reset", None)

    def update_model(
        self, model: str, context_length: int, base_url: str = "", api_key: str = "", provider: str = ""
    ) -> None:
        return self._do("update_model", None, model, context_length)

    def get_tool_schemas(self) -> list[ChatDict]:
        return self._do("get_tool_schemas", [SCHEMA])

    def handle_tool_call(self, name: str, args: Mapping[str, Any], **kwargs: Any) -> str:
        return self._do("handle_tool_call", "7", name, args, **kwargs)

    def should_compress_preflight(self, messages: list[ChatDict]) -> bool:
        return self._do("should_compress_preflight", False, messages)

    def get_status(self) -> dict[str, Any]:
        return self._do("get_status", {"engine": "hostile"})

    def problem(self) -> str:
        return self._do("problem", "")

    def hint(self, messages: list[ChatDict]) -> str | None:
        return self._do("hint", None, messages)


class SlowButWell(Hostile):
    """A correct engine that is slow in one method."""

    def __init__(self, slow: str) -> None:
        self._slow = slow
        super().__init__({})

    def _do(self, method: str, otherwise: Any, *args: Any, **kwargs: Any) -> Any:
        if method == self._slow:
            time.sleep(0.05)
        return otherwise


def with_attribute(name: str, deed: Deed) -> type[Hostile]:
    """An engine whose attribute is computed, wrongly."""
    return type("Computed", (Hostile,), {name: property(lambda self: deed())})
