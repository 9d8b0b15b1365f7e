"""Truncates a message in the context: its beginning and end stay. The store keeps the message whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent.messages import ChatDict, call_of, text_of
from agent.tokens import MESSAGE_TOKENS, cut_to_tokens, estimate_message_tokens, estimate_text_tokens
from agent.untrusted import MARK, Part, parts_of, wrap_untrusted

SMALLEST_BOUND = 150
"""Tokens. A smaller bound would leave less text than the note about the truncation."""
_WORTHWHILE_SHARE = 0.9
_MARK_TOKENS = estimate_text_tokens(wrap_untrusted(""))
_MIN_PART_TOKENS = 60
_FEWEST_PARTS = 3
_MAX_VALUE_TOKENS = 60


def fair_cap(sizes: Sequence[int], room: int, smallest: int) -> int:
    """Return the cap with which all sizes fit the room, small ones untouched; at least `smallest`."""
    left = room
    for index, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - index)
        if size > share:
            return max(smallest, share)
        left -= size
    return max(smallest, *sizes, 0)


def truncate(message: ChatDict, tokens: int) -> ChatDict:
    """Return a copy of about `tokens` with the same `message_id`, or the message itself if nothing is gained."""
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
    return copy if estimate_message_tokens(copy) <= size * _WORTHWHILE_SHARE else message


def _bound_content(message: ChatDict, tokens: int) -> Any:
    text = text_of(message)
    if estimate_text_tokens(text) <= tokens and isinstance(message["content"], str):
        return message["content"]
    where = f"message {message['message_id']}" if message.get("message_id") else "the store"
    if MARK not in text:
        return _bound_text(text, tokens, where)
    # A cut through the whole could take a mark away, and what others wrote would become the person's own words.
    return _bound_parts(list(parts_of(text)), tokens, where)


def _bound_parts(parts: Sequence[Part], tokens: int, where: str) -> str:
    """Truncate each part, small ones untouched. Of too many parts only the first and the last stay."""
    note = ""
    beginning, ending = list(parts), list[Part]()
    while (cap := _cap_of_each([*beginning, *ending], tokens, note)) < _MIN_PART_TOKENS:
        count = len(beginning) + len(ending)
        if count <= _FEWEST_PARTS:
            break
        most = max(_FEWEST_PARTS, count * 3 // 4)
        beginning, ending = list(parts[: most - most // 2]), list(parts[-(most // 2) :])
        left_out = len(parts) - most
        note = f"\n[… {left_out} parts left out to save context space; the full text is in {where} …]\n"
    written = [_bound_part(part, max(cap, _MIN_PART_TOKENS // 2), where) for part in (*beginning, *ending)]
    written.insert(len(beginning), note)
    return "".join(written)


def _cap_of_each(parts: Sequence[Part], tokens: int, note: str) -> int:
    """Return the tokens for each part if all are kept."""
    frames = _MARK_TOKENS * sum(part.outside for part in parts) + estimate_text_tokens(note)
    sizes = [estimate_text_tokens(part.text) for part in parts]
    if sum(sizes) + frames <= tokens:
        return max(_MIN_PART_TOKENS, *sizes)
    return fair_cap(sizes, tokens - frames, 0)


def _bound_part(part: Part, tokens: int, where: str) -> str:
    text = part.text if estimate_text_tokens(part.text) <= tokens else _bound_text(part.text, tokens, where)
    return wrap_untrusted(text) if part.outside else text


def _bound_text(text: str, tokens: int, where: str) -> str:
    note = f"\n[… {len(text)} characters shortened to save context space; the full text is in {where} …]\n"
    room = max(0, tokens - estimate_text_tokens(note) - 2)
    beginning = cut_to_tokens(text, room * 2 // 3)
    ending = cut_to_tokens(text[len(beginning) :][::-1], room - room * 2 // 3)[::-1]
    return beginning + note + ending


def _bound_call(call: ChatDict) -> ChatDict:
    """Truncate long values one by one, so that the arguments stay a valid object."""
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
    if isinstance(value, str) and estimate_text_tokens(value) > _MAX_VALUE_TOKENS:
        return f"{cut_to_tokens(value, _MAX_VALUE_TOKENS - 10)} … [{len(value)} characters shortened]"
    if isinstance(value, dict):
        return {key: _bound_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_bound_value(item) for item in value]
    return value


PRUNED = "[Old tool output cleared to save context space]"
_MAX_RESULT_CHARACTERS = 200


def prune_results(messages: Sequence[ChatDict]) -> list[ChatDict]:
    """Return the messages with long tool results cleared."""
    return [
        {**message, "content": PRUNED}
        if message["role"] == "tool" and len(text_of(message)) > _MAX_RESULT_CHARACTERS
        else message
        for message in messages
    ]
