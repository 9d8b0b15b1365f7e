"""Formats conversations as tables, JSON, text and session trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from rich.console import Console, RenderableType
from rich.text import Text
from rich.tree import Tree

from agent.messages import Message, ToolCall
from agent.redaction import redact
from agent.store import Compaction, Overview, SearchHit, Session, SessionStore
from agent.untrusted import without_marks
from gateway.cli.output import describe_call, local_time, one_line, printable
from gateway.session_tree import Gap, SessionBranch, build_tree, shown_sessions
from gateway.text.display import pluralize

OVERVIEW_COLUMNS = ("ID", "PLATFORM", "MESSAGES", "SESSIONS", "LAST ACTIVITY", "TITLE")

_SHORT_ID = 15
_SPEAKERS = {"user": "You", "assistant": "Hermes", "tool": "Tool"}
_MATCH_BEGINS, _MATCH_ENDS = "\x02", "\x03"


def title(overview: Overview) -> str:
    return one_line(overview.title, 80) or "An empty conversation"


def about(overview: Overview) -> str:
    return f"{_place_and_size(overview)} · since {local_time(overview.conversation.created_at)}"


def _place_and_size(overview: Overview) -> str:
    address = overview.conversation.address
    size = f"{pluralize(overview.messages, 'message')}, {pluralize(overview.sessions, 'session')}"
    where = f"{address.platform} {one_line(address.chat_id, 40)}"
    return f"{overview.conversation.id} · {where} · {size}"


# -- lists ---------------------------------------------------------------------------------------------------


def overview_rows(overviews: Sequence[Overview], *, brief: bool) -> list[list[str]]:
    """Return table rows; `brief` shortens the ids."""
    shown = _unique_length(overview.conversation.id for overview in overviews) if brief else None
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


def _unique_length(ids: Iterable[str]) -> int:
    """Return the length of id prefixes that are unique; commands accept such prefixes."""
    every = set(ids)
    return next(
        length for length in range(_SHORT_ID, 100) if len({each[:length] for each in every}) == len(every)
    )


def overview_as_dict(overview: Overview) -> dict[str, Any]:
    fields = asdict(overview)
    return {**fields.pop("conversation"), **fields}


def hit_as_dict(hit: SearchHit) -> dict[str, Any]:
    plain = hit.snippet.replace(_MATCH_BEGINS, "").replace(_MATCH_ENDS, "")
    return {"conversation_id": hit.conversation_id, "snippet": plain, "message": asdict(hit.message)}


def print_hits(hits: Sequence[SearchHit], console: Console) -> None:
    """Print hits: at a terminal the place and below it the text, in a pipe one line per hit."""
    for hit in hits:
        where = f"{local_time(hit.message.created_at)}  {hit.conversation_id}  {_SPEAKERS[hit.message.role]}"
        gap = "\n  " if console.is_terminal else "  "
        line = Text.assemble((where, "dim"), gap, _highlighted(hit.snippet))
        console.print(line, soft_wrap=not console.is_terminal)


def _highlighted(snippet: str) -> Text:
    flat = " ".join(snippet.split())
    text = Text()
    for number, piece in enumerate(flat.replace(_MATCH_ENDS, _MATCH_BEGINS).split(_MATCH_BEGINS)):
        text.append(printable(piece), "bold yellow" if number % 2 else "")
    return text


# -- one conversation ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Record:
    """A conversation to print or to export."""

    overview: Overview
    sessions: Sequence[Session]
    messages: Iterable[Message]

    @classmethod
    def redacted(cls, overview: Overview, sessions: Sequence[Session], messages: Iterable[Message]) -> Record:
        """Redact secrets in prompts and, as they are read, in messages; also those that people wrote."""
        return cls(
            overview,
            [
                replace(session, system_prompt=session.system_prompt and redact(session.system_prompt))
                for session in sessions
            ],
            map(_redacted, messages),
        )


def _redacted(message: Message) -> Message:
    return replace(
        message,
        content=redact(message.content),
        parts=tuple(
            {**part, "text": redact(part["text"])} if "text" in part else part for part in message.parts
        ),
        tool_calls=tuple(replace(call, arguments=redact(call.arguments)) for call in message.tool_calls),
    )


def record_as_dict(record: Record) -> dict[str, Any]:
    return {
        "conversation": asdict(record.overview.conversation),
        "sessions": [asdict(session) for session in record.sessions],
        "messages": [asdict(message) for message in record.messages],
    }


def print_record(record: Record, console: Console) -> None:
    console.print(_heading(record.overview, about(record.overview)))
    for entry in entries(record):
        console.print()
        if isinstance(entry, str):
            console.print(Text(entry, "dim"))
            continue
        console.print(Text.assemble((entry.who, "bold cyan"), (f" · {entry.when}", "dim")))
        if entry.text:
            console.print(_formatted(entry, console))
        for call in entry.calls:
            console.print(Text(call, "dim"))


def _heading(overview: Overview, details: str) -> Text:
    return Text.assemble((title(overview), "bold"), "\n", (details, "dim"))


@dataclass(frozen=True, slots=True)
class Spoken:
    """A message with the results of its tool calls."""

    who: str
    when: str
    text: str
    by_model: bool
    calls: list[str]
    """One line for each tool call and its result."""


def entries(record: Record) -> Iterator[str | Spoken]:
    """Yield messages, and a sentence where a new session began; holds one message at a time."""
    reasons = {session.id: session.reason for session in record.sessions}
    session_id = ""
    said: Message | None = None
    results: dict[str | None, str] = {}
    for message in record.messages:
        if message.role == "tool":
            results[message.tool_call_id] = message.content
            continue
        if said is not None:
            yield _spoken(said, results)
        if session_id and message.session_id != session_id:
            yield f"A new session began here ({reasons.get(message.session_id) or 'unknown reason'})."
        session_id, said, results = message.session_id, message, {}
    if said is not None:
        yield _spoken(said, results)


def _spoken(message: Message, results: Mapping[str | None, str]) -> Spoken:
    by_model = message.role == "assistant"
    return Spoken(
        who="Hermes" if by_model else message.name or "You",
        when=local_time(message.created_at),
        text=without_marks(message.content),
        by_model=by_model,
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


# -- the session tree ----------------------------------------------------------------------------------------


class Size(NamedTuple):
    """The numbers of messages of a session."""

    said: int
    """Messages in the session itself."""
    in_context: int
    """Messages that the model sees."""


@dataclass(frozen=True, slots=True)
class Lineage:
    overview: Overview
    sessions: list[Session]
    """Oldest first."""
    sizes: dict[str, Size]
    """Sizes of the sessions to show."""
    compactions: dict[str, Compaction]
    """Compactions by child session."""
    tree: SessionBranch[Session]

    def is_live(self, session: Session) -> bool:
        return session.id == self.overview.conversation.live_session_id


async def read_lineage(store: SessionStore, overview: Overview, *, everything: bool) -> Lineage:
    """Read the tree; without `everything`, the middle of long lines is left out."""
    conversation = overview.conversation
    sessions = await store.sessions(conversation.id)
    tree = build_tree(sessions, conversation.live_session_id, everything=everything)
    sizes = {}
    for session in shown_sessions(tree):
        history = await store.history(session.id)
        own = sum(message.session_id == session.id and message.kind == "said" for message in history)
        sizes[session.id] = Size(own, len(history))
    return Lineage(overview, sessions, sizes, dict(await store.compactions(conversation.id)), tree)


def lineage_as_dict(lineage: Lineage) -> dict[str, Any]:
    sessions = []
    for session in lineage.sessions:
        if session.id in lineage.sizes:
            fields = asdict(session)
            del fields["system_prompt"]
            compaction = lineage.compactions.get(session.id)
            fields["live"] = lineage.is_live(session)
            fields["messages"] = lineage.sizes[session.id]._asdict()
            fields["compaction"] = asdict(compaction) if compaction else None
            sessions.append(fields)
    return {"conversation": asdict(lineage.overview.conversation), "sessions": sessions}


def print_lineage(lineage: Lineage, console: Console) -> None:
    """Print two lines with a short id per session at a terminal, one line with the whole id in a pipe."""
    brief = console.is_terminal
    id_length = _unique_length(session.id for session in lineage.sessions) if brief else None

    def add(node: Tree, branch: SessionBranch[Session]) -> None:
        """Add a branch; only the branches that leave it are indented."""
        for member in branch.line:
            if isinstance(member, Gap):
                node.add(Text(f"… {member.sessions} more sessions in line; --all shows them", "dim"))
                continue
            below = node.add(entry(member))
            for each in branch.branches.get(member.id, ()):
                add(below.add(Text("left behind", "dim italic")), each)

    def entry(session: Session) -> Text:
        is_live = lineage.is_live(session)
        return Text.assemble(
            (session.id[:id_length], "bold cyan" if is_live else "cyan"),
            f" · {session.reason or 'first'} · {local_time(session.created_at)}",
            (" · live", "bold green") if is_live else "",
            "\n" if brief else " · ",
            (" · ".join(_details(lineage, session)), "dim"),
        )

    tree = Tree(_heading(lineage.overview, _place_and_size(lineage.overview)), guide_style="dim")
    add(tree, lineage.tree)
    console.print(tree)


def _details(lineage: Lineage, session: Session) -> Iterator[str]:
    size = lineage.sizes[session.id]
    yield f"{size.said} said, {size.in_context} in context"
    if compaction := lineage.compactions.get(session.id):
        yield f"cause: {compaction.trigger}"
        yield f"~{compaction.tokens_before:,} -> ~{compaction.tokens_after:,} tokens"
        yield f"{compaction.seconds:.1f} s"
        if compaction.cost_usd is not None:
            yield f"${compaction.cost_usd:.4f}"
        if compaction.outcome != "ok":
            yield one_line(compaction.outcome, 40)
        if compaction.focus:
            yield f"focus: {one_line(compaction.focus, 40)}"
    if made_by := " with ".join(filter(None, (session.model, session.engine))):
        yield one_line(made_by, 60)
