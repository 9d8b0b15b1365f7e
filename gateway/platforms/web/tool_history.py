"""Results of stored tool calls, and the files that the agent sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.messages import Message, ToolCall
from agent.tools.send_file import send_file, was_sent
from gateway.text.display import escape_hidden


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file of the workspace that the agent sent to the person."""

    path: str
    caption: str = ""

    @property
    def id(self) -> str:
        """Identifies the file in a URL. A path would let people ask for files that were not sent."""
        return hashlib.sha256(self.path.encode()).hexdigest()[:32]

    @property
    def name(self) -> str:
        """The file name, without characters that disguise its extension."""
        return escape_hidden(self.path.rsplit("/", 1)[-1])


def parse_arguments(arguments: str) -> object:
    """Parse the JSON arguments of a call; None if the model wrote invalid JSON."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return None


def results_by_call(messages: Sequence[Message]) -> dict[tuple[str, str], Message]:
    """Map (message id, call id) to the result: some providers repeat call ids in every turn."""
    asked: dict[str, str] = {}
    results: dict[tuple[str, str], Message] = {}
    for message in messages:
        asked.update({call.id: message.id for call in message.tool_calls})
        if message.tool_call_id in asked:
            results[asked[message.tool_call_id], message.tool_call_id] = message
    return results


def sent_file(call: ToolCall, result: Message | None) -> SentFile | None:
    """Return the file that a call sent, if any."""
    if call.name != send_file.name or result is None or not was_sent(result.content):
        return None
    match parse_arguments(call.arguments):
        case {"path": str(path), "caption": str(caption)}:
            return SentFile(path, caption)
        case {"path": str(path)}:
            return SentFile(path)
    return None


def sent_files(messages: Sequence[Message]) -> Iterator[SentFile]:
    results = results_by_call(messages)
    for message in messages:
        for call in message.tool_calls:
            if sent := sent_file(call, results.get((message.id, call.id))):
                yield sent
