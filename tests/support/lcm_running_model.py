"""The model and the configuration of a running Hermes with this engine: the model keeps a log, writes summaries without
details, and looks up what left its context."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import Any

from tests.contract.platforms.scripted_model import Model, Step
from tests.fakes.model_server import Seen
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Call, Reply
from tests.support.long_chat import small_window

WINDOW = 8192
RECORD = "[LCM RECORD]"
HINT = "[LCM HINT]"
CALLED = "I have called it."

_MATTERS = (
    "The harbour office wants its papers before noon and nobody has signed them yet.",
    "Two of the crates were opened on the way, and one of them smells of fish.",
    "The night ferry takes no bicycles in winter, whatever the board says.",
    "Somebody ought to call the chandler about the broken winch on the east pier.",
    "The tide tables on the wall are those of last year and should be thrown away.",
    "Our neighbour's dog has eaten the second list again and looks quite pleased.",
)
_PAGE = re.compile(r"Page (\d+) of the log")
_QUESTION = "Do you remember"
_CALL = re.compile(r"Please call (\w+) with (\[.*\])")
_HIT = re.compile(r"((?:c\d+\.)?m\d+) (?:\d{4}-\d\d-\d\d )?u: ")


def page(number: int, sentences: int = 19) -> str:
    """Something to say. A dozen of them with their answers fill the window; Discord takes 2,000 characters."""
    return f"Page {number} of the log. {_chatter(number, sentences)}"


def noted(number: int) -> str:
    """How the answer to it begins."""
    return f"Page {number} is noted."


def please_call(tool: str, *arguments: dict[str, Any]) -> str:
    """As often as there are arguments."""
    return f"Please call {tool} with {json.dumps(arguments)}"


class LogKeepingModel(Model):
    def __init__(self, server: FakeOpenAI) -> None:
        super().__init__(server)
        self.holds_summaries = False
        """They hang until `release()`."""

    @property
    def conversation(self) -> list[Seen]:
        """The requests of this scenario that carry a conversation."""
        return [seen for seen in self.requests() if seen.body.get("tools")]

    @property
    def summary_prompts(self) -> list[str]:
        return [str(seen.body["messages"][-1]["content"]) for seen in self.requests() if not _has_tools(seen)]

    def _next_step(self, seen: Seen) -> Step:
        if not _has_tools(seen):
            return self._summary()
        asked = user_texts(seen)[-1]
        if seen.body["messages"][-1]["role"] == "tool":
            return _after_tool(seen, asked)
        for words, steps in self._plans.items():
            if words in asked and steps:
                return steps.popleft()
        return _first_step(asked)

    def _summary(self) -> Reply:
        text = "They kept the log of a harbour.\nExpand for details about: the log"
        return Reply(chunks=[text], hold=self.holds_summaries)


def user_texts(seen: Seen) -> list[str]:
    """Return the user messages without texts of the engine."""
    texts = (str(message["content"]) for message in seen.body["messages"] if message["role"] == "user")
    return [text for text in texts if not text.startswith("[LCM ")]


def records(seen: Seen) -> list[str]:
    return [text for text in map(_content, seen.body["messages"]) if text.startswith(RECORD)]


def hints(seen: Seen) -> list[str]:
    return [text for text in map(_content, seen.body["messages"]) if text.startswith(HINT)]


def tool_result(seen: Seen) -> str:
    """The one at the end."""
    return tool_results(seen)[-1]


def tool_results(seen: Seen) -> list[str]:
    """Those at the end."""
    results = list(takewhile(lambda message: message["role"] == "tool", reversed(seen.body["messages"])))
    return [_content(message) for message in reversed(results)]


def out_of_sight(found: str) -> list[str]:
    """Ids of what a person said, in a result of `lcm_grep`, but not those of messages in the context."""
    ids, seen = [], False
    for line in found.splitlines():
        if hit := _HIT.match(line):
            ids += [] if seen else [hit[1]]
        elif not re.match(r"(?:c\d+\.)?m\d+ ", line):
            seen = line == "in your context"
    return ids


def breaks(requests: Sequence[Seen]) -> int:
    """How often a request did not simply go on where the one before it ended."""
    return sum(not _goes_on(before.body, after.body) for before, after in pairwise(requests))


def _goes_on(before: dict[str, Any], after: dict[str, Any]) -> bool:
    given = before["messages"]
    return bool(after["messages"][: len(given)] == given and after["tools"] == before["tools"])


def _first_step(asked: str) -> Reply:
    if asked.startswith(_QUESTION):
        return Reply(tool_calls=[Call("lcm_grep", {"query": asked})])
    if wanted := _CALL.search(asked):
        return Reply(tool_calls=[Call(wanted[1], arguments) for arguments in json.loads(wanted[2])])
    if number := _PAGE.search(asked):
        return _at_once(f"{noted(int(number[1]))} {_chatter(int(number[1]) + 3, 19)}")
    return _at_once(f"I hear you: {asked[-16:]}")


def _after_tool(seen: Seen, asked: str) -> Reply:
    """Expand the first id that is not yet in the context and repeat the text of the message."""
    result = tool_result(seen)
    if not asked.startswith(_QUESTION):
        return _at_once(CALLED)
    if _called(seen) == "lcm_grep":
        ids = out_of_sight(result)
        if not ids:
            return _at_once("I find nothing.")
        return Reply(tool_calls=[Call("lcm_expand", {"id": ids[0]})])
    told = re.search(r"\[m\d+ user [^\]]*\]\n(.*)", result)
    return _at_once(f"You told me: {told[1] if told else result[:300]}")


def _called(seen: Seen) -> str:
    """Return the tool whose result is last."""
    *_, calls = (message["tool_calls"] for message in seen.body["messages"] if message.get("tool_calls"))
    return str(calls[-1]["function"]["name"])


def _has_tools(seen: Seen) -> bool:
    return bool(seen.body.get("tools"))


def _content(message: dict[str, Any]) -> str:
    return str(message.get("content"))


def _chatter(number: int, sentences: int) -> str:
    return " ".join(_MATTERS[(number + at) % len(_MATTERS)] for at in range(sentences))


def _at_once(text: str) -> Reply:
    return Reply(chunks=[text])


def with_lcm(server: FakeOpenAI, **options: Any) -> dict[str, Any]:
    """Return a configuration with this engine and a small window. `options` are those of the engine."""
    return {
        **small_window(server, memory_flush=False),
        "context": {"engine": "lcm", **({"options": options} if options else {})},
    }
