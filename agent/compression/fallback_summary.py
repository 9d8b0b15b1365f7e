"""A stand-in for a summary that could not be written: an extract of what was said, with its gaps marked.

It is made without a model, so it always succeeds. The next compaction turns it into a real summary.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.compression.prompt import record_of
from agent.compression.summary_check import without_own_marks
from agent.compression.truncate import fair_cap
from agent.messages import ChatDict
from agent.tokens import cut_to_tokens, estimate_text_tokens

_SMALLEST = 16
"""Tokens for one message. If there are too many for that, the oldest are only counted."""
_EARLIER_SHARE = 0.5


def extract(messages: Sequence[ChatDict], tokens: int, *, earlier: str = "") -> str:
    """The earlier summary and the beginning of every message, in about so many tokens, without our marks."""
    earlier_part = _shortened(earlier, int(tokens * _EARLIER_SHARE))
    room = max(0, tokens - estimate_text_tokens(earlier_part))
    blocks = record_of(messages)
    shown = blocks[max(0, len(blocks) - room // _SMALLEST) :]
    sizes = [estimate_text_tokens(block) for block in shown]
    cap = fair_cap(sizes, room, _SMALLEST)
    lines = [_shortened(block, cap) for block in shown]
    if len(blocks) > len(shown):
        lines.insert(0, f"[{len(blocks) - len(shown)} older messages are not shown; the store has them]")
    return without_own_marks("\n".join(filter(None, (earlier_part, *lines))), labels=True)


def _shortened(text: str, tokens: int) -> str:
    if estimate_text_tokens(text) <= tokens:
        return text
    return cut_to_tokens(text, max(0, tokens - 1)) + " …"
