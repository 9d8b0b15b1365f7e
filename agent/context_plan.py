"""Between the store and an engine: messages with their ids in, references and new rows out.

An engine knows only dicts. What it returns is turned into a plan for a child session: a message it kept is a
reference, one it changed is a `pruned` copy, one it wrote is new. Nothing is copied that can be referred to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agent.errors import InvalidCompaction
from agent.messages import ChatDict, Kind, Message, ToolCall, as_chat
from agent.state_block import without_block
from agent.store import Conversation, Session
from agent.tool_pairs import repair

MESSAGE_ID = "message_id"
CREATED_AT = "created_at"
"""When it was said, in seconds since 1970. Only for engines: what a provider gets is made of the messages."""


@dataclass(slots=True)
class LiveContext:
    """What the model sees of a conversation right now. A compaction moves it to the child session."""

    conversation: Conversation
    session: Session
    history: list[Message]

    @property
    def system_prompt(self) -> str:
        return self.session.system_prompt or ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a child session starts with."""

    system_prompt: str
    context: list[str | Message]


def for_engine(system_prompt: str, history: Sequence[Message]) -> list[ChatDict]:
    """The whole history as an engine gets it, the system prompt first."""
    system: ChatDict = {"role": "system", "content": system_prompt}
    return [system, *map(_given, history)]


def _given(message: Message) -> ChatDict:
    chat = {**as_chat(message), MESSAGE_ID: message.id, CREATED_AT: message.created_at}
    if message.kind == "summary" and isinstance(chat["content"], str):
        chat["content"] = without_block(chat["content"])
    return chat


def plan_from(
    given: Sequence[ChatDict], returned: Sequence[ChatDict], history: Sequence[Message]
) -> Plan | None:
    """None where the engine changed nothing. Raises InvalidCompaction for what no provider would take."""
    if returned is given or list(map(_undated, returned)) == list(map(_undated, given)):
        return None
    system = [message for message in returned if message.get("role") == "system"]
    unchanged = {message[MESSAGE_ID]: message for message in given if MESSAGE_ID in message}
    rest = [message for message in returned if message.get("role") != "system"]
    rest = _reunited(rest, unchanged, history)
    _check(history, rest)
    known = {message.id: message for message in history}
    context = [_item(message, unchanged, known) for message in rest]
    kept = [item for item in context if isinstance(item, str)]
    if len(kept) != len(set(kept)):
        raise InvalidCompaction("A message appears twice.")
    prompt = str(system[0]["content"]) if system else str(given[0]["content"])
    return Plan(prompt, context)


def is_request(message: Message) -> bool:
    """The user's own words, be they shortened."""
    return message.role == "user" and message.kind in ("said", "pruned")


def _undated(message: ChatDict) -> ChatDict:
    """An engine that makes its dicts anew may have left out the time; the message is the same."""
    return {key: value for key, value in message.items() if key != CREATED_AT}


def _check(history: Sequence[Message], returned: Sequence[ChatDict]) -> None:
    if not returned:
        raise InvalidCompaction("It is empty.")
    if any(message.get("role") not in ("user", "assistant", "tool") for message in returned):
        raise InvalidCompaction("A role is unknown.")
    if repair(returned) != list(returned):
        raise InvalidCompaction("A tool call is parted from its result.")
    newest = _newest_request(history)
    if newest is not None and history[newest].id not in {message.get(MESSAGE_ID) for message in returned}:
        raise InvalidCompaction("The newest request is missing.")


def _newest_request(history: Sequence[Message]) -> int | None:
    """What an engine wrote itself, such as a bridge between two messages, is nobody's request."""
    asked = (index for index in reversed(range(len(history))) if is_request(history[index]))
    return next(asked, None)


def _reunited(
    returned: list[ChatDict], unchanged: Mapping[str, ChatDict], history: Sequence[Message]
) -> list[ChatDict]:
    """A note looks like the newest words of the user. An engine that kept it as such gets back what it is about."""
    newest, ids = _newest_request(history), [message.get(MESSAGE_ID) for message in returned]
    if newest is None or newest + 1 >= len(history) or history[newest].id in ids:
        return returned
    behind = history[newest + 1]
    if behind.kind != "note" or behind.id not in ids:
        return returned
    place = ids.index(behind.id)
    return [*returned[:place], unchanged[history[newest].id], *returned[place:]]


def _item(
    message: ChatDict, unchanged: Mapping[str, ChatDict], known: Mapping[str, Message]
) -> str | Message:
    message_id = str(message.get(MESSAGE_ID))
    if message_id in unchanged:
        if _undated(message) == _undated(unchanged[message_id]):
            return message_id
        return _copy(message, known[message_id])
    return _row(message, "summary")


def _copy(message: ChatDict, source: Message) -> Message:
    """It was said when its source was. A note stays one: it is no request, in whatever form."""
    kind: Kind = "note" if source.kind == "note" else "pruned"
    source_id = source.source_id or source.id
    return replace(_row(message, kind), source_id=source_id, created_at=source.created_at)


def _row(message: ChatDict, kind: Kind) -> Message:
    content = message.get("content") or ""
    parts = tuple(content) if isinstance(content, list) else ()
    text = "\n".join(str(part.get("text", "")) for part in parts) if parts else str(content)
    calls = (call["function"] | {"id": call["id"]} for call in message.get("tool_calls") or ())
    return Message(
        message["role"],
        text,
        parts,
        tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in calls),
        tool_call_id=message.get("tool_call_id"),
        name=message.get("name"),
        kind=kind,
    )
