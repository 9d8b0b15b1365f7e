"""Rows as the agent's types, and back."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any

from agent.messages import ChatDict, Message, ToolCall
from agent.store import Address, Conversation, Session
from gateway.store.rules import storable

Row = tuple[Any, ...]

MESSAGE_COLUMNS = (
    "role, content, parts, tool_calls, tool_call_id, name, kind, source_id, id, created_at, session_id"
)
"""In the order of the fields of `Message`; `messages_from` relies on it."""

SESSION_COLUMNS = (
    "id, conversation_id, parent_id, reason, created_at, engine, model, system_prompt, prompt_tokens"
)
"""In the order of the fields of `Session`."""

CONVERSATION_COLUMNS = "id, platform, chat_id, thread_id, user_id, person, live_session_id, created_at"

_FIELD_SETTERS: tuple[Callable[[Message, Any], None], ...] = tuple(
    getattr(Message, field.name).__set__ for field in fields(Message)
)


def message_row(message: Message, session_id: str) -> Row:
    """The values of MESSAGE_COLUMNS."""
    return (
        message.role,
        storable(message.content),
        json.dumps(message.parts) if message.parts else None,
        _calls_to_json(message.tool_calls) if message.tool_calls else None,
        message.tool_call_id and storable(message.tool_call_id),
        message.name and storable(message.name),
        message.kind,
        message.source_id,
        message.id,
        message.created_at,
        session_id,
    )


def message_from(row: Row) -> Message:
    role, content, parts, tool_calls, *others = row
    return Message(role, content, _parts_from_json(parts), _calls_from_json(tool_calls), *others)


def messages_from(rows: Sequence[Row]) -> list[Message]:
    """Many messages at once, field by field instead of message by message.

    A frozen dataclass is slow to make (its `__init__` goes through `object.__setattr__` for every field), and
    a long history is ten thousand of them. Filling the slots column by column takes half the time. Columns
    beyond MESSAGE_COLUMNS are not looked at.
    """
    if not rows:
        return []
    columns: list[Iterable[Any]] = list(zip(*rows, strict=True))
    columns[2] = map(_parts_from_json, columns[2])
    columns[3] = map(_calls_from_json, columns[3])
    messages = [object.__new__(Message) for _ in rows]
    for set_field, values in zip(_FIELD_SETTERS, columns, strict=False):
        deque(map(set_field, messages, values), maxlen=0)
    return messages


def session_from(row: Row) -> Session:
    return Session(*row)


def conversation_from(row: Row) -> Conversation:
    conversation_id, platform, chat_id, thread_id, user_id, person, live_session_id, created_at = row
    address = Address(platform, chat_id, thread_id, user_id)
    return Conversation(conversation_id, address, person, live_session_id, created_at)


def _parts_from_json(text: str | None) -> tuple[ChatDict, ...]:
    return () if text is None else tuple(json.loads(text))


def _calls_to_json(calls: Iterable[ToolCall]) -> str:
    return json.dumps([{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls])


def _calls_from_json(text: str | None) -> tuple[ToolCall, ...]:
    return () if text is None else tuple(ToolCall(**call) for call in json.loads(text))
