"""Translation between the store and an engine: stored messages to dicts, and returned dicts to a child session.

A message that the engine kept is a reference, one that it changed is a `pruned` copy, and one that it wrote is a new
row. The host adds a block to the first summary: the task list, and the files that were read and written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from agent.compression.summary_message import new_state, state_of_engine, text_of_engine, with_block
from agent.context.engine_value_checks import TOOL_NAME, plain
from agent.context.live import LiveContext
from agent.errors import InvalidCompaction
from agent.messages import (
    CREATED_AT,
    KIND,
    MESSAGE_ID,
    OUTSIDE,
    STATE,
    ChatDict,
    Kind,
    Message,
    ToolCall,
    as_chat,
    call_of,
    holds_outside_text,
    repair,
    text_of,
)
from agent.store import SessionStore
from agent.tokens import estimate_message_tokens
from agent.tools.todo import task_list

_KEYS = ("role", "content", "tool_calls", "tool_call_id", "name", MESSAGE_ID, CREATED_AT, KIND, STATE)
_ATTACHMENTS = ("image_url", "input_audio", "file")
_RECOGNISABLE = 24
"""Characters at the beginning or end of a request that a truncated copy must keep."""


@dataclass(frozen=True, slots=True)
class ChildSession:
    """The system prompt and the messages that a child session starts with."""

    system_prompt: str
    context: list[str | Message]


def for_engine(system_prompt: str, history: Sequence[Message]) -> list[ChatDict]:
    """Return the history as an engine gets it, the system prompt first."""
    system: ChatDict = {"role": "system", "content": system_prompt}
    return [system, *map(_given, history)]


def _given(message: Message) -> ChatDict:
    chat = {**as_chat(message), MESSAGE_ID: message.id, CREATED_AT: message.created_at}
    if message.kind in ("summary", "note"):
        chat[KIND] = message.kind
    if message.kind == "summary":
        chat[STATE] = state_of_engine(message)
        if not message.parts:
            chat["content"] = text_of_engine(message)
    return chat


def as_messages(returned: object) -> list[ChatDict]:
    """Return a plain copy of an engine's result, with the known keys. Raises InvalidCompaction for anything else."""
    if not isinstance(returned, list | tuple):
        raise InvalidCompaction("It is not a list.")
    if not all(isinstance(message, dict) for message in returned):
        raise InvalidCompaction("A message is not a dict.")
    known = [{key: message[key] for key in _KEYS if key in message} for message in returned]
    try:
        messages: list[ChatDict] = plain(known)
    except (TypeError, ValueError, RecursionError):
        raise InvalidCompaction("A message cannot be written as JSON.") from None
    for message in messages:
        _check_types(message)
    return messages


def _check_types(message: ChatDict) -> None:
    role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls")
    if role not in ("system", "user", "assistant", "tool"):
        raise InvalidCompaction("A role is unknown.")
    if isinstance(content, list):
        if role == "system" or not all(isinstance(part, dict) and _is_part(part) for part in content):
            raise InvalidCompaction("A content part is not what providers know.")
    elif not isinstance(content, str) and (content is not None or role == "system"):
        raise InvalidCompaction("A content is not text.")
    if calls and (role != "assistant" or not isinstance(calls, list) or not all(map(_is_call, calls))):
        raise InvalidCompaction("A tool call is not what providers know.")
    if not all(isinstance(message.get(key), str | None) for key in ("tool_call_id", "name", MESSAGE_ID)):
        raise InvalidCompaction("An id or a name is not text.")
    if not isinstance(message.get(STATE), dict | None):
        raise InvalidCompaction("The state of a message is not a JSON object.")


def _is_part(part: ChatDict) -> bool:
    if part.get("type") == "text":
        return isinstance(part.get("text"), str)
    return part.get("type") in _ATTACHMENTS and isinstance(part.get(part["type"]), dict)


def _is_call(call: object) -> bool:
    if not isinstance(call, dict) or not isinstance(function := call.get("function"), dict):
        return False
    texts = call.get("id"), function.get("name"), function.get("arguments")
    return all(isinstance(text, str) for text in texts)


def child_session_from(
    given: Sequence[ChatDict], returned: Sequence[ChatDict], history: Sequence[Message]
) -> ChildSession | None:
    """Turn an engine's result, from `as_messages`, into a child session; None if the engine changed nothing.

    Raises InvalidCompaction for a result that no provider would accept.
    """
    if list(map(_said, returned)) == list(map(_said, given)):
        return None
    system = [message for message in returned if message.get("role") == "system"]
    unchanged = {message[MESSAGE_ID]: message for message in given if MESSAGE_ID in message}
    rest = [message for message in returned if message.get("role") != "system"]
    rest = _with_request(rest, unchanged, history)
    _check(given, [*system, *rest], history)
    known = {message.id: message for message in history}
    outside = any(map(holds_outside_text, history))
    context = [_item(message, unchanged, known, outside=outside) for message in rest]
    kept = [item for item in context if isinstance(item, str)]
    if len(kept) != len(set(kept)):
        raise InvalidCompaction("A message appears twice.")
    prompt = str(system[0]["content"]) if system else str(given[0]["content"])
    return ChildSession(prompt, context)


def is_request(message: Message) -> bool:
    """Return whether the message is the user's own words, whole or truncated."""
    return message.role == "user" and message.kind in ("said", "pruned")


def _said(message: ChatDict) -> ChatDict:
    """Return the message without time, kind and state, which engines may leave out."""
    return {key: value for key, value in message.items() if key not in (CREATED_AT, KIND, STATE)}


def _check(given: Sequence[ChatDict], returned: Sequence[ChatDict], history: Sequence[Message]) -> None:
    """Check what the engine wrote or changed. Messages that it kept are as valid as before."""
    sources = {message.get(MESSAGE_ID): message for message in given}
    rest = [message for message in returned if message.get("role") != "system"]
    if not rest:
        raise InvalidCompaction("It is empty.")
    if repair(rest) != rest:
        raise InvalidCompaction("A tool call is parted from its result.")
    for message in returned:
        source = sources.get(message.get(MESSAGE_ID)) or {}
        if _said(message) != _said(source):
            _check_new(message, source)
    newest = newest_request(history)
    if newest is None:
        return
    request = sources[history[newest].id]
    found = next((message for message in rest if message.get(MESSAGE_ID) == request[MESSAGE_ID]), None)
    if found is None:
        raise InvalidCompaction("The newest request is missing.")
    if _said(found) != _said(request) and not _is_shortened(found, request):
        raise InvalidCompaction("The newest request has other words.")


def _check_new(message: ChatDict, source: ChatDict) -> None:
    """`source` is the message with the same id in the input of the engine; it may be empty."""
    role, calls = message["role"], message.get("tool_calls") or []
    if role == "tool" and not message.get("tool_call_id"):
        raise InvalidCompaction("A tool result has no call id.")
    if role != "tool" and not calls and not _has_content(message):
        raise InvalidCompaction("A message is empty.")
    known = source.get("tool_calls") or []
    if not all(call in known or _is_valid_call(call) for call in calls):
        raise InvalidCompaction("A tool call has no id, an impossible name or broken arguments.")


def _has_content(message: ChatDict) -> bool:
    content = message.get("content") or ""
    if isinstance(content, str):
        return bool(content.strip())
    return any(part["type"] != "text" or part["text"].strip() for part in content)


def _is_valid_call(call: ChatDict) -> bool:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        return False
    return bool(call["id"]) and bool(TOOL_NAME.fullmatch(function["name"])) and isinstance(arguments, dict)


def _is_shortened(copy: ChatDict, request: ChatDict) -> bool:
    text, shortened = text_of(request).strip(), text_of(copy)
    is_recognisable = text[:_RECOGNISABLE] in shortened or text[-_RECOGNISABLE:] in shortened
    is_smaller = estimate_message_tokens(copy) < estimate_message_tokens(request)
    return copy["role"] == "user" and is_recognisable and is_smaller


def newest_request(history: Sequence[Message]) -> int | None:
    """Return the index of the newest request. Messages that an engine wrote are not requests."""
    asked = (index for index in reversed(range(len(history))) if is_request(history[index]))
    return next(asked, None)


def _with_request(
    returned: list[ChatDict], unchanged: Mapping[str, ChatDict], history: Sequence[Message]
) -> list[ChatDict]:
    """Put the newest request back before its note, if the engine took the note for the request."""
    newest, ids = newest_request(history), [message.get(MESSAGE_ID) for message in returned]
    if newest is None or newest + 1 >= len(history) or history[newest].id in ids:
        return returned
    behind = history[newest + 1]
    if behind.kind != "note" or behind.id not in ids:
        return returned
    place = ids.index(behind.id)
    return [*returned[:place], unchanged[history[newest].id], *returned[place:]]


def _item(
    message: ChatDict, unchanged: Mapping[str, ChatDict], known: Mapping[str, Message], *, outside: bool
) -> str | Message:
    message_id = str(message.get(MESSAGE_ID))
    if message_id in unchanged:
        if _said(message) == _said(unchanged[message_id]):
            return message_id
        return _copy(message, known[message_id])
    return replace(_row(message, "summary"), state=new_state(message.get(STATE) or {}, outside=outside))


def _copy(message: ChatDict, source: Message) -> Message:
    """Return a changed copy that keeps the time of its source. A copy of a note is a note."""
    kind: Kind = "note" if source.kind == "note" else "pruned"
    source_id = source.source_id or source.id
    # A copy of a summary has no state of an engine, but what it replaced may still have been text of others.
    state = {OUTSIDE: True} if (source.state or {}).get(OUTSIDE) else None
    return replace(_row(message, kind), source_id=source_id, created_at=source.created_at, state=state)


def _row(message: ChatDict, kind: Kind) -> Message:
    content = message.get("content") or ""
    parts = tuple(content) if isinstance(content, list) else ()
    text = "\n".join(str(part.get("text", "")) for part in parts) if parts else str(content)
    calls = tuple(ToolCall(call["id"], *call_of(call)) for call in message.get("tool_calls") or ())
    return Message(
        message["role"],
        text,
        parts,
        calls,
        tool_call_id=message.get("tool_call_id"),
        name=message.get("name"),
        kind=kind,
    )


_MOST_FILES = 20
_FILES = "files"
_TOUCHES = {"read_file": "read", "write_file": "written"}


async def carried_state(store: SessionStore, live: LiveContext) -> str:
    """Return a line for each task and file; empty if there are none."""
    todo = await task_list(store, live.conversation.id)
    known = json.loads(await store.load_state(live.conversation.id, _FILES) or "{}")
    files = dict(list(_files_in(live.history, known).items())[-_MOST_FILES:])
    await store.save_state(live.conversation.id, _FILES, json.dumps(files))
    lines = [f"- {how}: {path}" for path, how in files.items()]
    parts = [f"Task list:\n{todo}" if todo else "", "Files:\n" + "\n".join(lines) if lines else ""]
    return "\n\n".join(part for part in parts if part)


def with_state(plan: ChildSession, state: str) -> ChildSession:
    """Add the state to the end of the first summary message."""
    context = list(plan.context)
    for index, item in enumerate(context):
        if state and isinstance(item, Message) and item.kind == "summary":
            context[index] = with_block(item, state)
            break
    return replace(plan, context=context)


def _files_in(history: Sequence[Message], known: Mapping[str, str]) -> dict[str, str]:
    """Return known and new files, the newest last, so that the oldest are dropped first."""
    files = dict(known)
    for call in chain.from_iterable(message.tool_calls for message in history):
        if call.name in _TOUCHES and (path := _path(call.arguments)):
            was_written = files.pop(path, "") == "written"
            files[path] = "written" if was_written else _TOUCHES[call.name]
    return files


def _path(arguments: str) -> str | None:
    try:
        given = json.loads(arguments)
    except ValueError:
        return None
    path = given.get("path") if isinstance(given, dict) else None
    return path if isinstance(path, str) else None
