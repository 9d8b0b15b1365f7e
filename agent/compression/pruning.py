"""Old tool results are cleared before anything else: what came of them is said in the turns that follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.chat_text import text_of
from agent.messages import ChatDict

PRUNED = "[Old tool output cleared to save context space]"
_PRUNED_ABOVE = 200
"""Characters."""


def prune_results(messages: Sequence[ChatDict], old: Iterable[int]) -> list[ChatDict]:
    """The messages, with copies in place of long tool results among the old ones."""
    pruned = list(messages)
    for index in old:
        message = pruned[index]
        if message["role"] == "tool" and len(text_of(message)) > _PRUNED_ABOVE:
            pruned[index] = {**message, "content": PRUNED}
    return pruned
