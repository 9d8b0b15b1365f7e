"""Rows and the types of the agent: conversions, and checks of values before they are stored."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import starmap
from typing import Any

from pydantic import TypeAdapter

from agent.errors import StoreError
from agent.messages import Kind, Message, Role, ToolCall
from agent.redaction import redact
from agent.store import Address, Conversation, Session, Split
from agent.untrusted import own_words
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


def conversation_from(row: Row) -> Conversation:
    conversation_id, platform, chat_id, thread_id, user_id, person, live_session_id, created_at = row
    address = Address(platform, chat_id, thread_id, user_id)
    return Conversation(conversation_id, address, person, live_session_id, created_at)


def _calls_to_json(calls: Iterable[ToolCall]) -> str:
    return json.dumps([{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls])


def _calls_from_json(text: str) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(**call) for call in _decode(text)[0])


# -- checks before storing

TITLE_LENGTH = 80

_MAX_READ = 1_000
"""How many characters of a message are read for its title."""

_MARKDOWN = re.compile(
    r"^(?:#{1,6} |> )|\*\*(?!\s)([^*]+)(?<!\s)\*\*|`{1,3}([^`]+)`{1,3}|~~([^~]+)~~|(?<!\w)\*([^\s*][^*]*)\*(?!\w)"
)
"""Markdown marks that a title drops; not underscores, which are part of names in programs."""


def check_appended(messages: Sequence[Message]) -> None:
    """Accept messages and notes only: other kinds belong to the context of a child session."""
    strange = {message.kind for message in messages} - {"said", "note"}
    if strange:
        raise ValueError(
            f"only `said` and `note` messages can be appended, not {sorted(strange)}; use split()"
        )


def check_context(split: Split) -> None:
    """Refuse duplicates, and new messages that would count as said in the child session."""
    ids = context_ids(split)
    if len(set(ids)) < len(ids):
        raise ValueError("the context of a split contains a message twice")
    if any(isinstance(entry, Message) and entry.kind == "said" for entry in split.context):
        raise ValueError("a split keeps a `said` message by its id and does not write it again")


def check_same_conversation(wanted: Session, left: Session) -> None:
    """Refuse a session of another conversation."""
    if wanted.conversation_id != left.conversation_id:
        raise StoreError(f"{wanted.id} is a session of another conversation.")


def context_ids(split: Split) -> list[str]:
    return [entry if isinstance(entry, str) else entry.id for entry in split.context]


_CONTEXT_END = "[End of that. To you:]"
"""Ends the group context before a message (`gateway/chat/group_context.py`)."""


def title_from(text: str | None) -> str:
    """Return the beginning of a text on one line, without simple Markdown, which a title does not render.

    Secrets are redacted before the text is truncated: half a key is not recognised as a secret.
    """
    said = own_words(text or "").rpartition(_CONTEXT_END)[2].lstrip()
    line = _MARKDOWN.sub(_without_marks, " ".join(redact(said[:_MAX_READ]).split()))
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"


def _without_marks(found: re.Match[str]) -> str:
    return next((inside.strip() for inside in found.groups() if inside), "")


def storable(text: str) -> str:
    """Replace lone surrogates, which broken JSON escapes produce and UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
