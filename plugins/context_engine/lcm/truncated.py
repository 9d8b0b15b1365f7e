"""Messages that are too large for the context: a digest stands there, and the whole is kept in the store."""

from __future__ import annotations

from dataclasses import replace

from agent.compression.truncate import truncate
from agent.messages import ChatDict, call_of, text_of
from agent.tokens import estimate_message_tokens, estimate_text_tokens

from .digests import digest
from .ingest import MARK, Item
from .messages import Stored

SMALLEST = 150
"""Tokens. Smaller messages are not worth a copy."""
_WORTHWHILE = 0.8
_SMALLEST_DIGEST = 60


def with_copy(item: Item, whole: Stored, tokens: int) -> Item:
    """The item with a copy of about so many tokens, or as it is where that gains nothing."""
    if item.tokens <= tokens:
        return item
    return _if_smaller(item, _copy(item.chat, whole, tokens))


def with_beginning_and_end(item: Item, whole: Stored, tokens: int) -> Item:
    """For the newest request, of which as many words as possible should stay, and all of its pictures."""
    said = whole.chat.get("content")
    parts = said if isinstance(said, list) else [{"type": "text", "text": said or ""}]
    words = "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    pictures = [part for part in parts if not isinstance(part.get("text"), str)]
    room = max(_SMALLEST_DIGEST, tokens - estimate_message_tokens({"role": "user", "content": pictures}))
    text = f"{_head(whole)}\n{truncate({'role': 'user', 'content': words}, room)['content']}"
    content = [{"type": "text", "text": text}, *pictures] if pictures else text
    return _if_smaller(item, {**item.chat, "content": content})


def in_one_line(item: Item, whole: Stored) -> Item:
    """Where there is room for nothing else."""
    return _if_smaller(item, {**item.chat, "content": f"{MARK}COPY of {whole.id}]"})


def for_summary(whole: Stored, tokens: int) -> Stored:
    """What a summariser reads of a message: a giant one only as its digest."""
    if whole.tokens <= tokens:
        return whole
    return replace(whole, chat=_copy(whole.chat, whole, tokens))


def _copy(shown: ChatDict, whole: Stored, tokens: int) -> ChatDict:
    """It keeps the keys of the host, so that the host knows what it stands for."""
    text, head = text_of(whole.chat), _head(whole)
    calls = whole.chat.get("tool_calls")
    room = max(_SMALLEST_DIGEST, tokens - estimate_text_tokens(head) - 8)
    if calls:
        bounded = truncate({**whole.chat, "content": None}, room)
        room = max(_SMALLEST_DIGEST, room - estimate_message_tokens(bounded))
        shown = {**shown, "tool_calls": bounded["tool_calls"]}
    if estimate_text_tokens(text) > room:
        hint = " ".join(" ".join(call_of(call)) for call in calls or ())[:200]
        made = digest(text, tokens=room, hint=hint)
        text = f"{made.kind}, {len(text):,} characters:\n{made.text}"
    return {**shown, "content": f"{head}\n{text}".rstrip()}


def _head(whole: Stored) -> str:
    return (
        f"{MARK}COPY of {whole.id}] {whole.tokens:,} tokens are kept outside the context; "
        f"`lcm_expand {whole.id}` gives them."
    )


def _if_smaller(item: Item, chat: ChatDict) -> Item:
    size = estimate_message_tokens(chat)
    return replace(item, chat=chat, tokens=size) if size <= item.tokens * _WORTHWHILE else item
