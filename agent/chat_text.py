"""Reading messages in OpenAI form, whose content may be a string, a list of parts, or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable

from agent.messages import ChatDict

_ATTACHMENT = "[attachment]"


def text_of(message: ChatDict) -> str:
    """All text of the message; attachments leave a mark."""
    content = message.get("content")
    if content.__class__ is str:
        # Nearly every message, and this is called for all of them.
        return content
    return "\n".join(_part_text(part) for part in content or ())


def call_of(call: ChatDict) -> tuple[str, str]:
    """The name and the arguments of a tool call. Some servers send an object where text belongs."""
    function = call.get("function") or {}
    arguments = function.get("arguments") or ""
    return function.get("name") or "", arguments if isinstance(arguments, str) else json.dumps(arguments)


def _part_text(part: ChatDict) -> str:
    text = part.get("text")
    return text if isinstance(text, str) else _ATTACHMENT


def last_words(newest_first: Iterable[ChatDict]) -> str:
    """Something a model can find again: what somebody said, not what a tool returned."""
    said = (text_of(message) for message in newest_first if message.get("role") in ("user", "assistant"))
    return next((text for text in said if text), "")
