"""Messages and summaries to be summarised, and a model that answers what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent.tokens import estimate_message_tokens
from plugins.context_engine.lcm.graph import Level, Node
from plugins.context_engine.lcm.messages import StoredMessage
from plugins.context_engine.lcm.summarising.sources import summary_tokens

MAY_2 = 1_777_723_200.0
"""Saturday, 2026-05-02, at noon."""
DAY = 86_400.0
GOOD = "Ann wants the invoices by Friday.\nExpand for details about: invoices, Friday"


class Scripted:
    """Answers, or raises, one thing after the other, and keeps what it was asked."""

    def __init__(self, *answers: str | BaseException | None) -> None:
        self._answers = answers
        self.asked: list[tuple[str, int]] = []

    def __call__(self, prompt: str, max_tokens: int) -> str | None:
        self.asked.append((prompt, max_tokens))
        answer = self._answers[min(len(self.asked), len(self._answers)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    @property
    def prompts(self) -> list[str]:
        return [prompt for prompt, _ in self.asked]


def stored(*chats: dict[str, Any], at: Sequence[float] = ()) -> list[StoredMessage]:
    times = [*at, *[at[-1] if at else MAY_2] * len(chats)]
    return [
        StoredMessage(n, n, chat["role"], chat, estimate_message_tokens(chat), times[n - 1])
        for n, chat in enumerate(chats, 1)
    ]


def user(text: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def talk(turns: int = 40) -> list[StoredMessage]:
    said = (f"Question {n}: where does invoice INV-{1000 + n} of Marlene Dupont stand?" for n in range(turns))
    return stored(*(user(text) for text in said))


def node(key: int, content: str, topics: str = "", level: Level = "detailed", day: int = 0) -> Node:
    tokens, at = summary_tokens(content, topics), MAY_2 + day * DAY
    return Node(
        key, 0, level, content, topics, tokens, 10 * tokens, 10 * tokens, 9, 9 * key, 9 * key + 8, at, at, 1
    )


def children() -> list[Node]:
    return [
        node(n, f"In stretch {n} the team chose supplier S-{n}00. " * 12, f"supplier {n}, price {n}", day=n)
        for n in range(4)
    ]


def record_in(prompt: str) -> list[str]:
    inside = prompt.split("\n--- RECORD ---\n", 1)[1].rsplit("\n--- END OF RECORD ---", 1)[0]
    return inside.splitlines()
