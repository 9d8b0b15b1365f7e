"""Histories to compact, and what must hold of every message list that is sent to a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai.rules import check_request

Chat = dict[str, Any]

TAU = Path(__file__).parents[3] / "shared" / "data" / "tau_airline_dev.json"


def tau_transcripts() -> list[list[Chat]]:
    """Real tool-calling conversations, with durable ids as the host adds them."""
    if not TAU.exists():
        pytest.skip(f"the public transcripts are not beside the project ({TAU.name})")
    transcripts = json.loads(TAU.read_text(encoding="utf-8"))
    return [
        [{**message, "message_id": f"m{number}-{index}"} for index, message in enumerate(transcript)]
        for number, transcript in enumerate(transcripts)
    ]


def system(text: str = "You are a helpful assistant.") -> Chat:
    return {"role": "system", "content": text}


def user(text: str) -> Chat:
    return {"role": "user", "content": text}


def assistant(text: str) -> Chat:
    return {"role": "assistant", "content": text}


def calls(*names_and_arguments: tuple[str, str], prefix: str = "call") -> Chat:
    """An assistant message that calls tools."""
    made = [
        {"id": f"{prefix}_{index}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for index, (name, arguments) in enumerate(names_and_arguments)
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(text: str, call_id: str = "call_0") -> Chat:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def group(name: str, arguments: str, output: str, call_id: str) -> list[Chat]:
    """One call and its result."""
    return [calls((name, arguments), prefix=call_id), result(output, f"{call_id}_0")]


def chat(turns: int, words: int = 30) -> list[Chat]:
    """A system prompt and so many exchanges of plain text, each different."""
    said = [system()]
    for turn in range(turns):
        said.append(user(f"Question {turn}: " + f"tell me about part {turn} " * (words // 5)))
        said.append(assistant(f"Answer {turn}: " + f"part {turn} is like this " * (words // 5)))
    return said


def with_ids(messages: list[Chat]) -> list[Chat]:
    return [{**message, "message_id": f"msg-{index}"} for index, message in enumerate(messages)]


def text(message: Chat) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


def summary_in(messages: list[Chat]) -> Chat | None:
    """The one summary message, if there is one."""
    found = [message for message in messages if text(message).startswith("[CONTEXT COMPACTION]")]
    assert len(found) <= 1, "more than one summary"
    return found[0] if found else None


def check_sendable(messages: list[Chat]) -> None:
    """OpenAI takes it: pairs are whole, content is there."""
    known = ("role", "content", "tool_calls", "tool_call_id")
    sent = [{key: message[key] for key in known if key in message} for message in messages]
    check_request({"model": "any", "messages": sent}, accepts_cache_control=False)


def check_turns_alternate(messages: list[Chat]) -> None:
    """Anthropic takes it: the user begins, then the sides take turns; tool results are on the user's side."""
    sides: list[str] = []
    for message in messages:
        if message["role"] == "system":
            continue
        side = "assistant" if message["role"] == "assistant" else "user"
        joins_results = message["role"] == "tool" and sides and sides[-1] == "user"
        if not joins_results:
            assert not sides or sides[-1] != side, f"two in a row: {side}"
            sides.append(side)
    assert not sides or sides[0] == "user", "the user must speak first"
