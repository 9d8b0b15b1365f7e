"""What a stored conversation tells of its tool calls: their results, and the files that were sent."""

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
    """A file of the workspace that the agent gave to the person."""

    path: str
    caption: str = ""

    @property
    def id(self) -> str:
        """Names it in an address. A path never does: what was not sent cannot be asked for."""
        return hashlib.sha256(self.path.encode()).hexdigest()[:32]

    @property
    def name(self) -> str:
        """Without characters that would make one ending look like another."""
        return escape_hidden(self.path.rsplit("/", 1)[-1])


def parsed_arguments(arguments: str) -> object:
    """None for what a model broke."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return None


def results_of_calls(messages: Sequence[Message]) -> dict[tuple[str, str], Message]:
    """By asking message and call id: some providers use the same call ids in every turn."""
    asked: dict[str, str] = {}
    results: dict[tuple[str, str], Message] = {}
    for message in messages:
        asked.update({call.id: message.id for call in message.tool_calls})
        if message.tool_call_id in asked:
            results[asked[message.tool_call_id], message.tool_call_id] = message
    return results


def sent_file(call: ToolCall, result: Message | None) -> SentFile | None:
    """The file that this call sent, if it did."""
    if call.name != send_file.name or result is None or not was_sent(result.content):
        return None
    match parsed_arguments(call.arguments):
        case {"path": str(path), "caption": str(caption)}:
            return SentFile(path, caption)
        case {"path": str(path)}:
            return SentFile(path)
    return None


def sent_files(messages: Sequence[Message]) -> Iterator[SentFile]:
    results = results_of_calls(messages)
    for message in messages:
        for call in message.tool_calls:
            if sent := sent_file(call, results.get((message.id, call.id))):
                yield sent
