"""Conversions between rows and the types of the agent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import starmap
from typing import Any

from pydantic import TypeAdapter

from agent.messages import Kind, Message, Role, ToolCall
from agent.store import Address, Conversation, Session
from gateway.store.sqlite.validation import storable
from gateway.types import Place

_PLACE = TypeAdapter(Place)


def place_from(column: str) -> Place:
    """Decode a place. Raises ValueError."""
    return _PLACE.validate_json(column)


Row = tuple[Any, ...]

MESSAGE_COLUMNS = (
    "role, content, parts, tool_calls, tool_call_id, name, kind, source_id, id, created_at, session_id, state"
)
"""The columns of a message, in the order of the fields of `Message`."""

SESSION_COLUMNS = (
    "id, conversation_id, parent_id, reason, created_at, engine, model, system_prompt, prompt_tokens"
)
"""The columns of a session, in the order of the fields of `Session`."""

CONVERSATION_COLUMNS = "id, platform, chat_id, thread_id, user_id, person, live_session_id, created_at"

_new = object.__new__
_decode = json.JSONDecoder().raw_decode
"""`json.loads` without the check for trailing text, which costs more than decoding short texts."""


def _setter(field: str) -> Callable[[Message, object], None]:
    """Return the function that writes one slot of a new message.

    Twelve of these calls take half the time of the `__init__` of a frozen dataclass, and a long history is 10,000
    messages."""
    setter: Callable[[Message, object], None] = getattr(Message, field).__set__
    return setter


_set_role = _setter("role")
_set_content = _setter("content")
_set_parts = _setter("parts")
_set_tool_calls = _setter("tool_calls")
_set_tool_call_id = _setter("tool_call_id")
_set_name = _setter("name")
_set_kind = _setter("kind")
_set_source_id = _setter("source_id")
_set_id = _setter("id")
_set_created_at = _setter("created_at")
_set_session_id = _setter("session_id")
_set_state = _setter("state")


def messages_from(rows: Iterable[Row]) -> list[Message]:
    """Decode rows that begin with MESSAGE_COLUMNS."""
    return list(starmap(_message_from, rows))


def _message_from(
    role: Role,
    content: str,
    parts: str | None,
    tool_calls: str | None,
    tool_call_id: str | None,
    name: str | None,
    kind: Kind,
    source_id: str | None,
    message_id: str,
    created_at: float,
    session_id: str,
    state: str | None,
    *_: object,
) -> Message:
    message = _new(Message)
    _set_role(message, role)
    _set_content(message, content)
    _set_parts(message, () if parts is None else tuple(_decode(parts)[0]))
    _set_tool_calls(message, () if tool_calls is None else _calls_from_json(tool_calls))
    _set_tool_call_id(message, tool_call_id)
    _set_name(message, name)
    _set_kind(message, kind)
    _set_source_id(message, source_id)
    _set_id(message, message_id)
    _set_created_at(message, created_at)
    _set_session_id(message, session_id)
    _set_state(message, None if state is None else _decode(state)[0])
    return message


def message_row(message: Message, session_id: str) -> Row:
    """Return the values of MESSAGE_COLUMNS."""
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
        None if message.state is None else storable(json.dumps(message.state, ensure_ascii=False)),
    )


def session_from(row: Row) -> Session:
    return Session(*row)


def conversation_from(row: Row) -> Conversation:
    conversation_id, platform, chat_id, thread_id, user_id, person, live_session_id, created_at = row
    address = Address(platform, chat_id, thread_id, user_id)
    return Conversation(conversation_id, address, person, live_session_id, created_at)


def _calls_to_json(calls: Iterable[ToolCall]) -> str:
    return json.dumps([{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls])


def _calls_from_json(text: str) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(**call) for call in _decode(text)[0])
