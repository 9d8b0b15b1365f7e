"""A conversation that outgrows the model's window: both sides of it, and the settings that make the window small.

Every message holds a word of its own (`ask0007`, `reply0007`, `summary0001`), so that each can be found again.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from agent.compression.prompt import TEMPLATE
from tests.fakes.model_server import ModelServer, Seen
from tests.fakes.script import Call, Reply
from tests.support.hermes_process import WebClient

WINDOW = 8192

_MATTERS = (
    "The harbour office wants its invoices before noon.",
    "Two of the crates were opened on the way and nobody signed for them.",
    "The night ferry takes no bicycles in winter.",
    "Somebody ought to call the chandler about the broken winch.",
    "The tide tables on the wall are those of last year.",
    "My neighbour's dog has eaten the second list again.",
    "The paint on the east pier is still wet.",
)
_ASKED = re.compile(r"\bask(\d{4})\b")


def small_window(server: ModelServer, **compression: Any) -> dict[str, Any]:
    """Hermes on this model, with one tool and a tail of few messages: a long one would fill the window alone."""
    return {
        "model": {
            "name": "openai/test-model",
            "base_url": server.base_url,
            "api_key": server.api_key,
            "context_length": server.context_length,
        },
        "tools": {"enabled": ["write_file"]},
        "compression": {"protect_last_n": 6, **compression},
        # People type slower than a test.
        "limits": {"messages_per_minute": None, "owner_messages_per_minute": None},
        "logging": {"level": "warning"},
    }


def question(number: int, sentences: int = 20) -> str:
    """Long enough that a few of them fill the window."""
    chatter = " ".join(_MATTERS[(number + at) % len(_MATTERS)] for at in range(sentences))
    return f"This is ask{number:04d}. {chatter} What do you say to that?"


def answer(number: int) -> str:
    return f"This is reply{number:04d}. {_MATTERS[number % len(_MATTERS)]} I have seen to it."


class Correspondent:
    """The model's side, for `server.script`. Each answer is one piece, because pieces cost the gateway time."""

    def __init__(self, *, note_every: int = 0) -> None:
        """`note_every`: at each so many-th question a tool is called before the answer."""
        self.summary_prompts: list[str] = []
        self.hold_summaries = False
        """They hang until `server.release()`."""
        self._note_every = note_every

    def __call__(self, seen: Seen) -> Reply:
        newest = seen.body["messages"][-1]
        if is_summary_prompt(seen):
            return self._summarise(newest["content"])
        if newest["role"] == "tool":
            asked = [each["content"] for each in seen.body["messages"] if each["role"] == "user"]
            return _in_one_piece(answer(_number(_ASKED, asked[-1])))
        if not _ASKED.search(newest["content"]) or _offers_only_memory(seen):
            return _in_one_piece("nothing")
        number = _number(_ASKED, newest["content"])
        if self._note_every and number % self._note_every == 0:
            return Reply(f"This is call{number:04d}.", [Call("write_file", _note(number))])
        return _in_one_piece(answer(number))

    def _summarise(self, prompt: str) -> Reply:
        self.summary_prompts.append(prompt)
        # The summary omits the turns, so everything else that survives comes from the ledger.
        text = f"## Goal\nTo run a harbour. This is summary{len(self.summary_prompts):04d}."
        return Reply(text, hold=self.hold_summaries)


def is_summary_prompt(seen: Seen) -> bool:
    return TEMPLATE in str(seen.body["messages"][-1]["content"])


class Chat:
    """A person at the web chat who keeps one stream open."""

    def __init__(self, client: WebClient, events: AsyncIterator[dict[str, Any]]) -> None:
        self.conversation_id = client.conversation_id
        self.send = client.send
        self.stop = client.stop
        self.transcript = client.transcript
        self._events = events

    async def say(self, text: str) -> list[dict[str, Any]]:
        """Sends a message and gives the events of its turn, the last one included."""
        message_id = await self.send(text)
        events: list[dict[str, Any]] = []
        async for event in self._events:
            if events or (event["type"] == "TurnStarted" and event["message_id"] == message_id):
                events.append(event)
            if events and event["type"] in ("TurnDone", "TurnFailed"):
                return events
        raise AssertionError(f"the stream ended early: {events}")

    async def told_at_once(self, command: str) -> str:
        """The answer to a command that begins no turn."""
        await self.send(command)
        async for event in self._events:
            if event["type"] == "Notice":
                return str(event["text"])
        raise AssertionError("the stream ended early")


@asynccontextmanager
async def chat(url: str, chat_id: str) -> AsyncIterator[Chat]:
    async with WebClient.open(url, chat_id) as client, aclosing(client.events()) as events:
        yield Chat(client, events)


async def talk_until_compacted(person: Chat, first: int, *, most: int = 60) -> int:
    """Asks from this number on until the person is told of a compaction; gives the next number."""
    for number in range(first, first + most):
        events = await person.say(question(number))
        assert events[-1]["type"] == "TurnDone", events[-1]
        if any(event["type"] == "Compacted" for event in events):
            return number + 1
    raise AssertionError(f"nothing was compacted in {most} turns")


def _in_one_piece(text: str) -> Reply:
    return Reply(text, chunks=[text])


def _note(number: int) -> dict[str, str]:
    return {"path": f"note{number:04d}.md", "content": _MATTERS[number % len(_MATTERS)]}


def _number(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    assert found, text
    return int(found[1])


def _offers_only_memory(seen: Seen) -> bool:
    """The look at what is worth remembering that comes before a compaction."""
    return [tool["function"]["name"] for tool in seen.body.get("tools", [])] == ["memory"]
