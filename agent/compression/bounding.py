"""Makes one message smaller without losing its place: its beginning and end stay, and where the rest is to be found.

The store keeps every message whole; a bounded copy exists only in the context.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent.chat_text import call_of, text_of
from agent.messages import ChatDict
from agent.tokens import MESSAGE_TOKENS, cut_to_tokens, estimate_message_tokens, estimate_text_tokens

SMALLEST_BOUND = 150
"""Tokens. Below this the mark would outweigh what it stands beside."""
_WORTHWHILE = 0.9
"""A copy that is hardly smaller is not worth its mark."""
_SHOWN_VALUE = 60
"""Tokens kept of a long value in the arguments of a call."""


def fair_cap(sizes: Sequence[int], room: int, smallest: int) -> int:
    """The cap under which all sizes together fit the room, small ones untouched; at least `smallest`."""
    left = room
    for index, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - index)
        if size > share:
            return max(smallest, share)
        left -= size
    return max(smallest, *sizes, 0)


def bound(message: ChatDict, tokens: int) -> ChatDict:
    """A copy in about so many tokens, or the message itself where nothing is gained. It keeps its `message_id`."""
    size = estimate_message_tokens(message)
    if size <= tokens:
        return message
    copy = {**message}
    if message.get("tool_calls"):
        copy["tool_calls"] = [_bound_call(call) for call in message["tool_calls"]]
    beside_text = estimate_message_tokens({**copy, "content": None})
    if message.get("content"):
        room = max(SMALLEST_BOUND - MESSAGE_TOKENS, tokens - beside_text)
        copy["content"] = _bound_content(message, room)
    return copy if estimate_message_tokens(copy) <= size * _WORTHWHILE else message


def _bound_content(message: ChatDict, tokens: int) -> Any:
    text = text_of(message)
    if estimate_text_tokens(text) <= tokens and isinstance(message["content"], str):
        return message["content"]
    where = f"message {message['message_id']}" if message.get("message_id") else "the store"
    mark = f"\n[… {len(text)} characters shortened to save context space; the full text is in {where} …]\n"
    room = max(0, tokens - estimate_text_tokens(mark) - 2)
    beginning = cut_to_tokens(text, room * 2 // 3)
    ending = cut_to_tokens(text[len(beginning) :][::-1], room - room * 2 // 3)[::-1]
    return beginning + mark + ending


def _bound_call(call: ChatDict) -> ChatDict:
    """Long values are cut one by one, so that the arguments stay an object with the same keys."""
    name, written = call_of(call)
    try:
        arguments = json.loads(written)
    except ValueError:
        arguments = {"unreadable": written}
    shorter = json.dumps(_bound_value(arguments), ensure_ascii=False)
    if len(shorter) >= len(written):
        return call
    return {**call, "function": {"name": name, "arguments": shorter}}


def _bound_value(value: Any) -> Any:
    if isinstance(value, str) and estimate_text_tokens(value) > _SHOWN_VALUE:
        return f"{cut_to_tokens(value, _SHOWN_VALUE - 10)} … [{len(value)} characters shortened]"
    if isinstance(value, dict):
        return {key: _bound_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_bound_value(item) for item in value]
    return value
