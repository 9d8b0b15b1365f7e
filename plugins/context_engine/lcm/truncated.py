"""Copies of messages that are too large for the context: a digest replaces the text, and the store keeps the
original."""

from __future__ import annotations

from dataclasses import replace

from agent.compression.truncate import truncate
from agent.messages import ChatDict, call_of, text_of
from agent.tokens import estimate_message_tokens, estimate_text_tokens

from .digests import digest
from .ingest import MARK, ContextItem
from .messages import StoredMessage

MIN_TOKENS = 150
"""Smaller messages are not replaced."""
_MAX_SIZE_SHARE = 0.8
_MIN_DIGEST_TOKENS = 60


def make_copy(item: ContextItem, whole: StoredMessage, tokens: int) -> ContextItem:
    """Return the item with a copy of about these tokens, or unchanged if that saves too little."""
    if item.tokens <= tokens:
        return item
    return _if_smaller(item, _digest_copy(item.chat, whole, tokens))


def truncate_middle(item: ContextItem, whole: StoredMessage, tokens: int) -> ContextItem:
    """Keep beginning, end and images: used for the newest request."""
    said = whole.chat.get("content")
    parts = said if isinstance(said, list) else [{"type": "text", "text": said or ""}]
    words = "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    pictures = [part for part in parts if not isinstance(part.get("text"), str)]
    room = max(_MIN_DIGEST_TOKENS, tokens - estimate_message_tokens({"role": "user", "content": pictures}))
    text = f"{_head(whole)}\n{truncate({'role': 'user', 'content': words}, room)['content']}"
    content = [{"type": "text", "text": text}, *pictures] if pictures else text
    return _if_smaller(item, {**item.chat, "content": content})


def reference_only(item: ContextItem, whole: StoredMessage) -> ContextItem:
    """Keep only the id, if there is no room for more."""
    return _if_smaller(item, {**item.chat, "content": f"{MARK}COPY of {whole.id}]"})


def digest_for_summary(whole: StoredMessage, tokens: int) -> StoredMessage:
    """Return what the summariser reads of a message: the digest of a large one."""
    if whole.tokens <= tokens:
        return whole
    return replace(whole, chat=_digest_copy(whole.chat, whole, tokens))


def _digest_copy(shown: ChatDict, whole: StoredMessage, tokens: int) -> ChatDict:
    """Replace the text by a digest. The host's keys stay, so the host knows the original."""
    text, head = text_of(whole.chat), _head(whole)
    calls = whole.chat.get("tool_calls")
    room = max(_MIN_DIGEST_TOKENS, tokens - estimate_text_tokens(head) - 8)
    if calls:
        bounded = truncate({**whole.chat, "content": None}, room)
        room = max(_MIN_DIGEST_TOKENS, room - estimate_message_tokens(bounded))
        shown = {**shown, "tool_calls": bounded["tool_calls"]}
    if estimate_text_tokens(text) > room:
        hint = " ".join(" ".join(call_of(call)) for call in calls or ())[:200]
        made = digest(text, tokens=room, hint=hint)
        text = f"{made.kind}, {len(text):,} characters:\n{made.text}"
    return {**shown, "content": f"{head}\n{text}".rstrip()}


def _head(whole: StoredMessage) -> str:
    return (
        f"{MARK}COPY of {whole.id}] {whole.tokens:,} tokens are kept outside the context; "
        f"`lcm_expand {whole.id}` gives them."
    )


def _if_smaller(item: ContextItem, chat: ChatDict) -> ContextItem:
    size = estimate_message_tokens(chat)
    return replace(item, chat=chat, tokens=size) if size <= item.tokens * _MAX_SIZE_SHARE else item
