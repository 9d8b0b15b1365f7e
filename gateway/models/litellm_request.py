"""Messages on their way out: copies, and in a form every provider accepts."""

from __future__ import annotations

import json
from collections.abc import Iterable

from agent.messages import ChatDict


def outgoing(messages: Iterable[ChatDict]) -> list[ChatDict]:
    """Copies, because litellm rewrites messages in place."""
    return [
        _with_readable_calls(message) if message.get("tool_calls") else dict(message) for message in messages
    ]


def _with_readable_calls(message: ChatDict) -> ChatDict:
    return {**message, "tool_calls": [_readable(call) for call in message["tool_calls"]]}


def _readable(call: ChatDict) -> ChatDict:
    """The call with an object as its arguments.

    A model that once wrote broken JSON has it in its history for good. Anthropic takes objects only, and
    litellm fails on anything else: the conversation would be over.
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
