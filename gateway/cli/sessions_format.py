"""Formats conversations as tables, JSON and text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from agent.messages import Message, ToolCall
from agent.redaction import redact
from agent.store import Conversation, Overview, SearchHit, Session
from agent.untrusted import without_marks
from gateway.cli.output import describe_call, local_time, one_line, printable
from gateway.text.display import pluralize

OVERVIEW_COLUMNS = ("ID", "PLATFORM", "MESSAGES", "SESSIONS", "LAST ACTIVITY", "TITLE")

_SHORT_ID = 15
_SPEAKERS = {"user": "You", "assistant": "Hermes", "tool": "Tool"}
_MATCH_BEGINS, _MATCH_ENDS = "\x02", "\x03"


@dataclass(frozen=True, slots=True)
class Record:
    """A whole conversation."""

    conversation: Conversation
    sessions: list[Session]
    messages: list[Message]


# -- lists ---------------------------------------------------------------------------------------------------


def overview_rows(overviews: Sequence[Overview], *, brief: bool) -> list[list[str]]:
    """Return table rows; `brief` shortens the ids."""
    ids = [overview.conversation.id for overview in overviews]
    shown = shortest_apart(ids) if brief else None
    return [
        [
            overview.conversation.id[:shown],
            overview.conversation.address.platform,
            str(overview.messages),
            str(overview.sessions),
            local_time(overview.updated_at),
            one_line(overview.title, 80),
        ]
        for overview in overviews
    ]


def shortest_apart(ids: Sequence[str]) -> int:
    """Return the length of id prefixes that are unique; commands accept such prefixes."""
    return next(
        length for length in range(_SHORT_ID, 100) if len({each[:length] for each in ids}) == len(ids)
    )


def overview_as_dict(overview: Overview) -> dict[str, Any]:
    pluralize = {key: value for key, value in asdict(overview).items() if key != "conversation"}
    return {**asdict(overview.conversation), **pluralize}


def hit_as_dict(hit: SearchHit) -> dict[str, Any]:
    plain = hit.snippet.replace(_MATCH_BEGINS, "").replace(_MATCH_ENDS, "")
    return {"conversation_id": hit.conversation_id, "snippet": plain, "message": asdict(hit.message)}


def print_hits(hits: Sequence[SearchHit], console: Console) -> None:
    """Print hits: at a terminal the place and below it the text, in a pipe one line per hit."""
    for hit in hits:
        where = f"{local_time(hit.message.created_at)}  {hit.conversation_id}  {_SPEAKERS[hit.message.role]}"
        line = Text.assemble(
            (where, "dim"), "\n  " if console.is_terminal else "  ", _highlighted(hit.snippet)
        )
        console.print(line, soft_wrap=not console.is_terminal)


def _highlighted(snippet: str) -> Text:
    flat = " ".join(snippet.split())
    text = Text()
    for number, piece in enumerate(flat.replace(_MATCH_ENDS, _MATCH_BEGINS).split(_MATCH_BEGINS)):
        text.append(printable(piece), "bold yellow" if number % 2 else "")
    return text


# -- one conversation ----------------------------------------------------------------------------------------


def record_as_dict(record: Record) -> dict[str, Any]:
    return {
        "conversation": asdict(record.conversation),
        "sessions": [asdict(session) for session in record.sessions],
        "messages": [asdict(message) for message in record.messages],
    }


def without_secrets(record: Record) -> Record:
    """Redact secrets in a message, also in text that people wrote and that older versions stored."""
    return replace(
        record,
        sessions=[
            replace(session, system_prompt=_redacted(session.system_prompt)) for session in record.sessions
        ],
        messages=[message_without_secrets(message) for message in record.messages],
    )


def message_without_secrets(message: Message) -> Message:
    return replace(
        message,
        content=redact(message.content),
        parts=tuple(
            {**part, "text": redact(part["text"])} if "text" in part else part for part in message.parts
        ),
        tool_calls=tuple(replace(call, arguments=redact(call.arguments)) for call in message.tool_calls),
    )


def _redacted(text: str | None) -> str | None:
    return None if text is None else redact(text)


def print_record(record: Record, console: Console) -> None:
    about_it = about(record.conversation, len(record.messages), len(record.sessions))
    console.print(Text(_title(record), "bold"), Text(about_it, "dim"), sep="\n")
    for entry in entries(record.messages, record.sessions):
        console.print()
        if isinstance(entry, SessionBreak):
            console.print(Text(entry.sentence, "dim"))
            continue
        console.print(Text.assemble((entry.who, "bold cyan"), (f" · {entry.when}", "dim")))
        if entry.text:
            console.print(_formatted(entry, console))
        for call in entry.calls:
            console.print(Text(call, "dim"))


@dataclass(frozen=True, slots=True)
class SessionBreak:
    sentence: str


@dataclass(frozen=True, slots=True)
class Spoken:
    who: str
    when: str
    text: str
    by_model: bool
    calls: list[str]
    """One line for each tool call and its result."""


def entries(messages: Iterable[Message], sessions: Iterable[Session]) -> Iterator[SessionBreak | Spoken]:
    """Yield messages with the results of their tool calls; holds one message at a time."""
    reasons = {session.id: session.reason for session in sessions}
    session_id = ""
    said: Message | None = None
    results: dict[str | None, str] = {}
    for message in messages:
        if message.role == "tool":
            results[message.tool_call_id] = message.content
            continue
        if said is not None:
            yield _spoken(said, results)
        if session_id and message.session_id != session_id:
            reason = reasons.get(message.session_id) or "unknown reason"
            yield SessionBreak(f"A new session began here ({reason}).")
        session_id, said, results = message.session_id, message, {}
    if said is not None:
        yield _spoken(said, results)


def _spoken(message: Message, results: Mapping[str | None, str]) -> Spoken:
    return Spoken(
        who="Hermes" if message.role == "assistant" else message.name or "You",
        when=local_time(message.created_at),
        text=without_marks(message.content),
        by_model=message.role == "assistant",
        calls=[_call_line(call, results.get(call.id)) for call in message.tool_calls],
    )


def _call_line(call: ToolCall, result: str | None) -> str:
    outcome = "no result" if result is None else one_line(without_marks(result), 60) or "nothing"
    return f"{describe_call(call.name, call.arguments)} → {outcome}"


def _formatted(entry: Spoken, console: Console) -> RenderableType:
    """Render Markdown at a terminal; in a pipe, print the source text."""
    if not entry.by_model or not console.is_terminal:
        return Text(printable(entry.text))
    from gateway.cli.chat_markdown import Answer  # noqa: PLC0415 - slow to import, and pipes do without it

    return Answer(printable(entry.text))


def _title(record: Record) -> str:
    said = (without_marks(message.content) for message in record.messages if message.role == "user")
    return one_line(next(said, ""), 80) or "An empty conversation"


def about(conversation: Conversation, messages: int, sessions: int) -> str:
    address = conversation.address
    size = f"{pluralize(messages, 'message')}, {pluralize(sessions, 'session')}"
    where = f"{address.platform} {one_line(address.chat_id, 40)}"
    return f"{conversation.id} · {where} · {size} · since {local_time(conversation.created_at)}"
