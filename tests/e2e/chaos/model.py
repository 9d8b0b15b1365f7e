"""The model of the kill test: what it says names what it was asked, and it never says the same twice."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.e2e.chaos.moments import Kind
from tests.e2e.chaos.words import answer, asked_in, effect_key
from tests.fakes.model_server import Seen
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Call, Failure, Reply

TOOL = "keep_note"
SHORT, STREAM, LONG = 6, 16, 620
"""Words. The long one does not fit into one message of Telegram's, still less of Discord's."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as it arrived."""

    token: int
    attempt: int
    at: float
    life: int
    after_tools: int
    """Number of tool results after the question."""


class TalkativeModel:
    """A script for an `FakeOpenAI`.

    `short`: a few words at once. `stream`: word by word, for two seconds. `long`: several messages. `tool`: some words
    and a call that has an effect, then a short answer, or a stream.
    """

    def __init__(
        self, server: FakeOpenAI, reach: Callable[[str, Any], bool], life: Callable[[], int]
    ) -> None:
        self.kinds: dict[int, Kind] = {}
        """What was planned for each question."""
        self.asked: list[Asked] = []
        self.endings: dict[int, list[str]] = {}
        """By question: the last words of the answers that were begun."""
        self.trouble: Callable[[int], Reply | Failure | None] = lambda token: None
        """What goes wrong with a request, if anything."""
        self._attempts: Counter[int] = Counter()
        self._reach = reach
        self._life = life
        self._server = server
        server.script(self._answer)

    @property
    def resumed(self) -> int:
        """Turns that were worked on in more than one life."""
        lives: dict[int, set[int]] = {}
        for asked in self.asked:
            lives.setdefault(asked.token, set()).add(asked.life)
        return sum(len(known) > 1 for known in lives.values())

    @property
    def refusals(self) -> list[str]:
        return self._server.refusals

    def _answer(self, seen: Seen) -> Reply | Failure:
        token, after_tools = _asked(seen.body["messages"])
        self._attempts[token] += 1
        attempt = self._attempts[token]
        self.asked.append(Asked(token, attempt, time.monotonic(), self._life(), after_tools))
        if trouble := self.trouble(token):
            return trouble
        reply = self._reply(token, attempt, after_tools > 0)
        self._reach("model", token)
        return reply

    def _reply(self, token: int, attempt: int, tools_have_run: bool) -> Reply:
        kind = self.kinds.get(token, "short")
        if kind in ("tool", "tool and stream") and not tools_have_run:
            call = Call(TOOL, {"key": effect_key(token, attempt)})
            return Reply(chunks=[answer(token, attempt, 3)] if token % 2 else [], tool_calls=[call])
        length = {"long": LONG, "stream": STREAM, "tool and stream": STREAM}.get(kind, SHORT)
        text = answer(token, attempt, length)
        self.endings.setdefault(token, []).append(f"m{token}a{attempt}w{length - 1}")
        if length == SHORT:
            return Reply(chunks=[text])
        pieces = re.findall(r"\s*\S+", text)
        if length == LONG:
            return Reply(
                chunks=["".join(pieces[at : at + 31]) for at in range(0, len(pieces), 31)], pace=0.08
            )
        return Reply(chunks=pieces, pace=0.12)


def _asked(messages: list[dict[str, Any]]) -> tuple[int, int]:
    """Return the newest question and the number of tool results after it. A request to continue is not a question."""
    results = 0
    for message in reversed(messages):
        results += message["role"] == "tool"
        token = asked_in(_text(message["content"])) if message["role"] == "user" else None
        if token is not None:
            return token, results
    raise AssertionError(f"nobody has asked anything: {messages[-1]}")


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())
