"""Messages on their way out: copies, and in a form every provider accepts."""

from __future__ import annotations

import json
from collections.abc import Iterable

from agent.messages import ChatDict

_UNSEEN: ChatDict = {"type": "text", "text": "[an image, which this model cannot see]"}


def outgoing(messages: Iterable[ChatDict], *, images: bool = True) -> list[ChatDict]:
    """Copies, because litellm rewrites messages in place.

    Without `images`: a conversation may have some from a model that saw them, and this one's provider refuses them.
    """
    copies = [
        _with_readable_calls(message) if message.get("tool_calls") else dict(message) for message in messages
    ]
    return copies if images else [_without_images(message) for message in copies]


def _without_images(message: ChatDict) -> ChatDict:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": [part if part.get("type") == "text" else _UNSEEN for part in content]}


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
