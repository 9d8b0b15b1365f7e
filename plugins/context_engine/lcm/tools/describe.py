# ruff: noqa: S608 - nothing from outside is put into the SQL
"""`lcm_describe`: describes an id without its full text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from sqlite3 import Connection, Row

from pydantic import Field

from agent.messages import call_of
from agent.untrusted import in_a_note

from ..context_membership import ContextMembers
from ..formatting import format_period, format_time, pluralize
from ..graph import FALLBACK, Node, children_of, node_from_row, summaries_above, summaries_by_key
from ..messages import StoredMessage, messages_between
from ..stats import CONTEXT_QUERY, context_parameters
from .tool import (
    Arguments,
    CallContext,
    EngineTool,
    MessageRange,
    SummaryTarget,
    current_conversation,
    fit_lines,
    resolve_id,
    result_tokens,
)

_TOKENS = 1_500
_MAX_LISTED = 200
_MAX_TOPICS = 200
_MAX_NAME = 60


class DescribeArguments(Arguments):
    id: str = Field("", description="`s4`, `m12`, a range `m12-m30`, or `c3.m12` in another conversation.")


def run(call: CallContext, args: DescribeArguments) -> str:
    with call.database.reading() as connection:
        if not args.id.strip():
            lines = list(_overview(connection, call))
        else:
            target = resolve_id(connection, call, args.id)
            members = ContextMembers.load(connection, call)
            if isinstance(target, SummaryTarget):
                lines = list(_of_summary(connection, target, members))
            elif target.first == target.last:
                lines = list(_of_message(connection, target, members))
            else:
                lines = list(_of_range(connection, target, members))
    more = "... and {} more lines. Ask for a smaller range or for one of the ids."
    return "\n".join(fit_lines(lines, result_tokens(call, _TOKENS), more))


def _of_summary(connection: Connection, target: SummaryTarget, members: ContextMembers) -> Iterator[str]:
    summary, prefix = target.node, target.prefix
    kind = "summary of messages" if summary.depth == 0 else "summary of summaries"
    levels = {"bullets": "bullet points", FALLBACK: "an extract with gaps, no summary could be written yet"}
    level = levels.get(summary.level, summary.level)
    yield f"{target.id}: {kind}, depth {summary.depth}, {level}, {summary.tokens:,} tokens"
    yield (
        f"Messages: {pluralize(summary.message_count, 'message')} from {prefix}m{summary.first_seq} to "
        f"{prefix}m{summary.last_seq}, {summary.message_tokens:,} tokens"
    )
    yield f"Times: {format_period(summary.earliest, summary.latest)}"
    if summary.topics:
        yield f"About: {_note(summary.topics, _MAX_TOPICS)}"
    yield f"Context: {members.describe_summary(summary.key)}"
    above = connection.execute(
        "SELECT parent FROM summary_children WHERE child = ? ORDER BY parent", (summary.key,)
    )
    yield f"Above it: {', '.join(f'{prefix}s{key}' for (key,) in above) or 'nothing'}"
    children = children_of(connection, summary.key)
    if children:
        yield f"Below it: {pluralize(len(children), 'summary', 'summaries')}, {summary.source_tokens:,} tokens"
        yield from (_summary_line(child, prefix) for child in children)


def _of_message(connection: Connection, target: MessageRange, members: ContextMembers) -> Iterator[str]:
    (message,) = messages_between(connection, target.conversation, target.first, target.first)
    yield f"{target.id}: {_who(message)}, {format_time(message.said_at)} UTC, {message.tokens:,} tokens"
    for call in message.chat.get("tool_calls") or ():
        called, arguments = call_of(call)
        name, call_id = _note(called, _MAX_NAME), _note(str(call.get("id") or ""), _MAX_NAME)
        yield f"Calls {name} ({call_id}), {len(arguments):,} characters"
    if message.chat.get("tool_call_id"):
        yield f"Answers the call {_note(str(message.chat['tool_call_id']), _MAX_NAME)}"
    content = message.chat.get("content")
    if isinstance(content, list):
        attached = [part for part in content if not isinstance(part.get("text"), str)]
        kinds = ", ".join(_note(str(part.get("type")), 20) for part in attached[:10])
        yield f"{pluralize(len(attached), 'attachment')}: {kinds or 'none'}"
    yield f"Context: {members.describe_message(connection, message.key)}"
    covering = [
        f"{target.prefix}{each.id} (depth {each.depth})" for each in summaries_above(connection, message.key)
    ]
    yield f"Covered by: {', '.join(covering) or 'no summary'}"


def _of_range(connection: Connection, target: MessageRange, members: ContextMembers) -> Iterator[str]:
    count, tokens, earliest, latest = connection.execute(
        "SELECT count(*), sum(tokens), min(said_at), max(said_at) FROM messages "
        "WHERE conversation = ? AND seq BETWEEN ? AND ?",
        (target.conversation, target.first, target.last),
    ).fetchone()
    yield f"{target.id}: {pluralize(count, 'message')}, {tokens:,} tokens, {format_period(earliest, latest)}"
    rows = connection.execute(
        "SELECT * FROM summaries WHERE key IN (SELECT summary FROM messages "
        "JOIN summary_messages ON message = messages.key WHERE conversation = ? AND seq BETWEEN ? AND ?) "
        "ORDER BY first_seq, key",
        (target.conversation, target.first, target.last),
    )
    leaves = list(map(node_from_row, rows))
    count = f"{pluralize(len(leaves), 'summary', 'summaries')} of messages" if leaves else "no summary"
    yield f"Covered by: {count}"
    yield from (_summary_line(leaf, target.prefix) for leaf in leaves)
    yield "Messages:"
    last = min(target.last, target.first + _MAX_LISTED - 1)
    for message in messages_between(connection, target.conversation, target.first, last):
        yield (
            f"{target.prefix}{message.id} {_who(message)}, {format_time(message.said_at)}, {message.tokens:,} tokens, "
            f"{members.describe_message(connection, message.key)}"
        )
    if last < target.last:
        yield f"{target.prefix}m{last + 1} to {target.prefix}m{target.last} are not listed here."


def _overview(connection: Connection, call: CallContext) -> Iterator[str]:
    """List the context from old to new, with consecutive messages on one line."""
    current_conversation(connection, call)
    rows = connection.execute(
        f"{CONTEXT_QUERY} SELECT seq, summary FROM items LEFT JOIN messages ON key = message ORDER BY position",
        context_parameters(call),
    ).fetchall()
    summaries = summaries_by_key(connection, [row["summary"] for row in rows if row["summary"]])
    if summaries:
        yield "The present context, from old to new:"
    else:
        yield "The present context has no summaries: nothing of it was compacted yet."

    def run_of(numbered: tuple[int, Row]) -> tuple[int, int]:
        """Consecutive messages have the same difference between number and position."""
        position, row = numbered
        return (row["summary"] or 0, 0 if row["summary"] else row["seq"] - position)

    for (key, _), run in groupby(enumerate(rows), key=run_of):
        if key:
            yield _summary_line(summaries[key], "")
        else:
            seqs = [row["seq"] for _, row in run]
            what = f"m{seqs[0]}" + (f"-m{seqs[-1]}" if len(seqs) > 1 else "")
            yield f"{what}: {pluralize(len(seqs), 'message')}, word for word"


def _summary_line(summary: Node, prefix: str) -> str:
    about = f", about: {_note(summary.topics, _MAX_TOPICS)}" if summary.topics else ""
    return (
        f"{prefix}{summary.id}: depth {summary.depth}, {prefix}m{summary.first_seq}-m{summary.last_seq} "
        f"({pluralize(summary.message_count, 'message')}), {format_period(summary.earliest, summary.latest)}, "
        f"{summary.tokens:,} tokens{about}"
    )


def _who(message: StoredMessage) -> str:
    return f"{message.role} {_note(str(message.chat.get('name') or ''), _MAX_NAME)}".strip()


def _note(text: str, characters: int) -> str:
    return in_a_note(text)[:characters].strip()


TOOL = EngineTool(
    "lcm_describe",
    (
        "Says what an id is, without its whole text: of a summary its messages, times, size, topics, and the "
        "summaries above and below it; of a message its role, time, size, and the summaries that cover it; and "
        "whether it is in the present context. Without an id: an overview of the present context, with its summaries "
        "from old to new. Use it to decide what to expand."
    ),
    DescribeArguments,
    run,
)
