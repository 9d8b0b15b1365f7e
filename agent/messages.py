"""Messages: immutable records with ids of our own, their OpenAI form, and the pairing of tool calls with results.

Providers refuse a history in which a result has no call before it, or a call has no result right after it. A *group*
is an assistant message with calls and the tool messages that directly follow it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agent.ids import new_id
from agent.untrusted import MARK

Role = Literal["user", "assistant", "tool"]
"""The system prompt is not a message: its bytes are pinned on the session."""

Kind = Literal["said", "summary", "pruned", "note"]
"""`said`: a message of the conversation. `note`: an engine's hint to the model, never shown in the chat. The others
exist only in a child session's context. Search finds only `said`."""

ChatDict = dict[str, Any]
"""A message in OpenAI's chat format."""

MESSAGE_ID = "message_id"
CREATED_AT = "created_at"
"""When it was said, in seconds since 1970."""
KIND = "kind"
"""`summary` or `note`, on messages that an engine wrote."""
STATE = "state"
"""On messages that an engine wrote: a JSON object of the engine.

These four keys are for engines only: none of them reaches a provider."""

OUTSIDE = "outside"
"""In the state of a summary: the messages that it replaces held text of others."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model wrote it; `arguments` is raw text and may be broken JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """Written once, never changed."""

    role: Role
    content: str = ""
    parts: tuple[ChatDict, ...] = ()
    """Content parts (text and images) when the message is more than text; `content` stays its searchable text."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    """The tool's name on a tool message; the speaker's in a group."""
    kind: Kind = "said"
    source_id: str | None = None
    """For a `pruned` copy: the original message."""
    id: str = field(default_factory=lambda: new_id("msg"))
    created_at: float = field(default_factory=time.time)
    session_id: str = ""
    """Set by the store."""
    state: ChatDict | None = None
    """Data beside a summary: see `agent/compression/summary_message.py`. None for other messages and for summaries of
    old versions."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call. `prompt_tokens` includes what the cache served."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    """None where the price is not known; 0.0 where it is free."""

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One call. Messages are in OpenAI form, the system message first."""

    messages: list[ChatDict]
    tools: tuple[ChatDict, ...] = ()
    """OpenAI tool definitions, in a stable order: the provider's cache depends on it."""
    tool_choice: Literal["auto", "none"] = "auto"
    max_tokens: int | None = None
    temperature: float | None = None
    purpose: str = "turn"
    """`turn`, `compression`, ...: for accounting and logs."""


def as_chat(message: Message) -> ChatDict:
    """Return the OpenAI form. Empty assistant text beside tool calls is None, as providers want it."""
    chat: ChatDict = {"role": message.role, "content": list(message.parts) or message.content}
    if message.tool_calls:
        chat["content"] = chat["content"] or None
        chat["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        chat["tool_call_id"] = message.tool_call_id
    if message.role == "user" and message.name:
        chat["name"] = message.name
    return chat


def holds_outside_text(message: Message) -> bool:
    """Return whether others may have written part of it: marked text, a picture, or a summary of such messages."""
    has_attachment = any(part.get("type") != "text" for part in message.parts)
    return MARK in message.content or has_attachment or bool((message.state or {}).get(OUTSIDE))


def without_notes(messages: Iterable[Message]) -> list[Message]:
    """Return the messages that a person would count."""
    return [message for message in messages if message.kind != "note"]


def unanswered_calls(messages: Iterable[Message]) -> list[ToolCall]:
    """Return the calls of the newest message with calls that have no result, because of a stop or a crash.

    Older messages do not count: some models number their calls from zero in every turn.
    """
    waiting: list[ToolCall] = []
    for message in messages:
        if message.tool_calls:
            waiting = list(message.tool_calls)
        answered = next((call for call in waiting if call.id == message.tool_call_id), None)
        if answered:
            waiting.remove(answered)
    return waiting


_ATTACHMENT = "[attachment]"


def text_of(message: ChatDict) -> str:
    """Return all text of the message; attachments leave a mark."""
    content = message.get("content")
    if content.__class__ is str:
        # Nearly every message, and this is called for all of them.
        return content
    texts = (part.get("text") for part in content or ())
    return "\n".join(text if isinstance(text, str) else _ATTACHMENT for text in texts)


def call_of(call: ChatDict) -> tuple[str, str]:
    """Return the name and the arguments of a tool call. Some servers send an object where text belongs."""
    function = call.get("function") or {}
    arguments = function.get("arguments") or ""
    return function.get("name") or "", arguments if isinstance(arguments, str) else json.dumps(arguments)


def last_words(newest_first: Iterable[ChatDict]) -> str:
    """Return the newest words of the user or the assistant, by which a model can find the place."""
    said = (text_of(message) for message in newest_first if message.get("role") in ("user", "assistant"))
    return next((text for text in said if text), "")


STUB_RESULT = "[The result of this call is not in the context any more; see the summary of earlier turns]"


def align_backward(messages: Sequence[ChatDict], index: int) -> int:
    """Return the nearest boundary at or before `index` that does not part a call from its results."""
    if not 0 < index < len(messages) or messages[index].get("role") != "tool":
        return index
    parent = index
    while parent > 0 and messages[parent].get("role") == "tool":
        parent -= 1
    return parent if messages[parent].get("tool_calls") else parent + 1


def next_group(messages: Sequence[ChatDict], index: int) -> int:
    """Return the boundary after the message or group that begins at `index`."""
    index += 1
    while index < len(messages) and messages[index].get("role") == "tool":
        index += 1
    return index


def is_paired(messages: Sequence[ChatDict]) -> bool:
    """Return whether every call is answered once, by the messages right after it."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            call_id = message.get("tool_call_id", "")
            if call_id not in waiting:
                return False
            waiting.remove(call_id)
        elif waiting:
            return False
        elif calls := message.get("tool_calls"):
            waiting = [call["id"] for call in calls]
    return not waiting


def repair(messages: Sequence[ChatDict]) -> list[ChatDict]:
    """Drop results without a call, and add a stub for each call without a result. Changes no message."""
    if is_paired(messages):
        return list(messages)
    repaired: list[ChatDict] = []
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            call_id = message.get("tool_call_id", "")
            if call_id in waiting:
                waiting.remove(call_id)
                repaired.append(message)
            continue
        repaired += map(_stub, waiting)
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        repaired.append(message)
    return [*repaired, *map(_stub, waiting)]


def _stub(call_id: str) -> ChatDict:
    return {"role": "tool", "tool_call_id": call_id, "content": STUB_RESULT}
