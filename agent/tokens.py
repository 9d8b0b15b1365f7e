"""A rough count of tokens without a tokenizer: within 30 % for prose, code, JSON, Chinese and Japanese.

The constants were fitted to cl100k, o200k and Claude's tokenizer; `tests/unit/agent/test_tokens.py` holds them to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from agent.messages import ChatDict, call_of

MESSAGE_TOKENS = 4
"""Role and separators of one message."""
TOOL_CALL_TOKENS = 8
"""Overhead of one call beside its name and arguments."""
IMAGE_TOKENS = 1_100
"""One image, or another attachment: about a megapixel at either big provider."""

_TOKENS_PER_HAN = 1.0
_TOKENS_PER_JAPANESE = 0.83
_LAST_WORD = re.compile(r"(?<![A-Za-z0-9_@./:-])[A-Za-z0-9_@./:-]{1,80}\Z")


def estimate_text_tokens(text: str) -> int:
    """Estimate tokens: about 4 characters each in prose and code, 3.1 in JSON, one in Chinese."""
    length = len(text)
    if text.isascii():
        is_json = text[:1] in "{[" and not text[1:2].isalpha()
        return length * 10 // 31 if is_json else (length + 3) // 4
    # Beyond ASCII, UTF-8 needs two more bytes for each Chinese or Japanese character, and one for an accented letter.
    wide = (len(text.encode("utf-8", "surrogatepass")) - length) / 2
    # Kana are cheaper than Han characters. These two are in nearly every Japanese sentence.
    per_wide = _TOKENS_PER_JAPANESE if "の" in text or "で" in text else _TOKENS_PER_HAN
    return max(1, round(max(0.0, length - wide) / 4 + wide * per_wide))


def estimate_message_tokens(message: ChatDict) -> int:
    """Estimate one message with its tool calls and attachments."""
    total = MESSAGE_TOKENS
    content = message.get("content")
    if content.__class__ is str:
        if content.isascii() and content[:1] not in "{[":
            # The usual case, spelled out: this runs for every message of every history.
            total += (len(content) + 3) // 4
        else:
            total += estimate_text_tokens(content)
    elif content:
        for part in content:
            text = part.get("text")
            total += estimate_text_tokens(text) if isinstance(text, str) else IMAGE_TOKENS
    for call in message.get("tool_calls") or ():
        name, arguments = call_of(call)
        total += TOOL_CALL_TOKENS + (len(name) + 3) // 4 + estimate_text_tokens(arguments)
    return total


def estimate_messages_tokens_rough(messages: Iterable[ChatDict]) -> int:
    """Estimate a history, without the tool definitions that go with it: see `estimate_tools_tokens`."""
    return sum(map(estimate_message_tokens, messages))


def estimate_tools_tokens(tools: Iterable[ChatDict]) -> int:
    """Estimate tool definitions as they are sent beside the messages."""
    return sum(TOOL_CALL_TOKENS + len(json.dumps(tool, separators=(",", ":"))) // 4 for tool in tools)


def cut_to_tokens(text: str, tokens: int) -> str:
    """Return the beginning of the text, up to so many estimated tokens, if possible without half a word."""
    cut = text
    while (size := estimate_text_tokens(cut)) > tokens:
        cut = cut[: min(len(cut) - 1, len(cut) * tokens // size)]
    if len(cut) < len(text) and cut[-1:].isalnum() and text[len(cut)].isalnum():
        # Half an identifier would pass for another one. Text without spaces has no better place to be cut.
        last_word = _LAST_WORD.search(cut)
        if last_word and last_word.start() > 0:
            cut = cut[: last_word.start()]
    return cut
