"""A context engine without a summary: keeps the first turn and the newest turns, and drops the turns between them.

A turn is a message of the user and everything up to the next one. Only whole turns are dropped, so that no tool call
loses its result and no answer its question. If the newest turn alone is too long, its oldest steps are dropped, too.

Nothing is lost: the store keeps every message, and `session_search` finds it. Use this engine as a template: your own
engine needs a folder like this one, a class with `name` and three methods, and `context.engine: <name>` to select it.
"""

from __future__ import annotations

from typing import Any

from agent.compression.truncate import truncate
from agent.context_engine import ContextEngine
from agent.messages import ChatDict
from agent.tokens import estimate_messages_tokens_rough

NOTE = (
    "[Note: Older messages of this conversation were left out to save space. `session_search` may find them.]"
)

Block = list[ChatDict]
"""Messages that are kept or dropped together."""


class SlidingWindow(ContextEngine):
    """Compacts at `threshold` of the model's window, to `keep` of that."""

    def __init__(self, context_length: int, threshold: float = 0.50, keep: float = 0.50) -> None:
        self.context_length = context_length
        self.threshold_tokens = round(context_length * threshold)
        self._keep = keep

    @property
    def name(self) -> str:
        return "sliding_window"

    def update_from_response(self, usage: dict[str, Any]) -> None:
        self.last_prompt_tokens = usage.get("prompt_tokens") or 0
        self.last_completion_tokens = usage.get("completion_tokens") or 0
        self.last_total_tokens = usage.get("total_tokens") or 0

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return tokens >= self.threshold_tokens

    def compress(
        self, messages: list[ChatDict], current_tokens: int | None = None, focus_topic: str | None = None
    ) -> list[ChatDict]:
        # `threshold_tokens` follows the model: the base class adapts it in update_model().
        budget = round(self.threshold_tokens * self._keep)
        if estimate_messages_tokens_rough(messages) <= budget:
            return messages
        system, turns = _split(messages)
        # With the note, so that the result has the same size when it is measured again.
        system = [_with_note(message) for message in system[:1]] + system[1:]
        kept = [*system, *_window(turns, budget - estimate_messages_tokens_rough(system))]
        if estimate_messages_tokens_rough(kept) >= estimate_messages_tokens_rough(messages):
            return messages
        self.compression_count += 1
        return kept


def _window(turns: list[Block], room: int) -> list[ChatDict]:
    """Return the first turn if it is short, and the newest turns that fit."""
    if not turns:
        return []
    *older, newest = turns
    newest = _shortened(newest, room)
    room -= estimate_messages_tokens_rough(newest)
    first = older[:1] if older and estimate_messages_tokens_rough(older[0]) <= room // 4 else []
    room -= sum(map(estimate_messages_tokens_rough, first))
    fitting = _newest_that_fit(older[len(first) :], room)
    return [message for turn in (*first, *fitting, newest) for message in turn]


def _shortened(turn: Block, room: int) -> Block:
    """Return the turn if it fits; else the user's message and the newest steps.

    A step is an answer, or tool calls with their results.
    """
    if estimate_messages_tokens_rough(turn) <= room:
        return turn
    request, rest = (turn[:1], turn[1:]) if turn[0]["role"] == "user" else ([], turn)
    steps: list[Block] = []
    for message in rest:
        if message["role"] == "tool" and steps:
            # A single result can be larger than everything else. The store keeps the whole result.
            steps[-1].append(truncate(message, room // 4))
        else:
            steps.append([message])
    fitting = _newest_that_fit(steps, room - estimate_messages_tokens_rough(request)) or steps[-1:]
    return [*request, *(message for step in fitting for message in step)]


def _newest_that_fit(blocks: list[Block], room: int) -> list[Block]:
    start = len(blocks)
    while start and (size := estimate_messages_tokens_rough(blocks[start - 1])) <= room:
        room -= size
        start -= 1
    return blocks[start:]


def _split(messages: list[ChatDict]) -> tuple[Block, list[Block]]:
    """Return the system prompt and the turns. Messages before the first user message are a turn, too."""
    system: Block = []
    turns: list[Block] = []
    for message in messages:
        if message["role"] == "user" or (message["role"] != "system" and not turns):
            turns.append([message])
        elif turns:
            turns[-1].append(message)
        else:
            system.append(message)
    return system, turns


def _with_note(system: ChatDict) -> ChatDict:
    if not isinstance(system.get("content"), str) or NOTE in system["content"]:
        return system
    return {**system, "content": f"{system['content']}\n\n{NOTE}"}
