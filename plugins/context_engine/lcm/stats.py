# ruff: noqa: S608 - only a constant query is put into the SQL
"""Statistics of a conversation: its status, its compactions, and the cleanup of unused summaries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection, Row
from typing import NamedTuple

from agent.compression.outcome import CompressionOutcome
from agent.untrusted import in_a_note

from .formatting import format_time, pluralize
from .graph import FALLBACK
from .tools.tool import CallContext

LEFTOVER_SUMMARIES = """
    SELECT key FROM summaries AS here WHERE conversation = :conversation
        AND created_at < (
            SELECT done_at FROM compactions JOIN sessions ON sessions.key = compactions.session
            WHERE sessions.conversation = :conversation ORDER BY compactions.key DESC LIMIT 1 OFFSET 1
        )
        AND NOT EXISTS (SELECT 1 FROM summary_children WHERE child = here.key)
        AND NOT EXISTS (SELECT 1 FROM written_summaries WHERE summary = here.key)
        AND NOT EXISTS (SELECT 1 FROM context_items WHERE summary = here.key)
"""
"""Summaries of interrupted compactions that no record ever showed. Those of the last two compactions stay, because the
next compaction or another engine of the conversation may use them.
"""


def record_compaction(
    connection: Connection,
    conversation: int,
    session_id: str,
    outcome: CompressionOutcome,
    *,
    summaries: int,
    now: float,
) -> None:
    connection.execute(
        "INSERT INTO compactions "
        "(session, tokens_before, tokens_after, summaries, outcome, seconds, done_at) "
        "SELECT key, ?, ?, ?, ?, ?, ? FROM sessions WHERE conversation = ? AND id = ?",
        (
            *(outcome.tokens_before, outcome.tokens_after, summaries, outcome.kind, outcome.seconds, now),
            *(conversation, session_id),
        ),
    )
    delete_leftovers(connection, conversation)


def delete_leftovers(connection: Connection, conversation: int) -> None:
    """Delete unused summaries from the top down. Messages stay."""
    here = {"conversation": conversation}
    while keys := [(row["key"],) for row in connection.execute(LEFTOVER_SUMMARIES, here)]:
        connection.executemany("DELETE FROM summary_messages WHERE summary = ?", keys)
        connection.executemany("DELETE FROM summary_children WHERE parent = ?", keys)
        connection.executemany("DELETE FROM summaries WHERE key = ?", keys)


def status_counts(connection: Connection, conversation_id: str) -> dict[str, int]:
    row = connection.execute(
        "SELECT (SELECT count(*) FROM messages WHERE conversation = here.key) AS messages, "
        "(SELECT count(*) FROM summaries WHERE conversation = here.key) AS summaries "
        "FROM conversations AS here WHERE id = ?",
        (conversation_id,),
    ).fetchone()
    return {"stored_messages": row["messages"], "summaries": row["summaries"]} if row else {}


CONTEXT_QUERY = (
    "WITH RECURSIVE items (position, message, summary) AS ("
    "SELECT position, message, summary FROM context_items JOIN sessions ON sessions.key = session "
    "JOIN conversations ON conversations.key = sessions.conversation "
    "WHERE conversations.id = :conversation AND sessions.id = :session), "
    "reached (summary) AS ("
    "SELECT summary FROM items WHERE summary IS NOT NULL "
    "UNION SELECT child FROM reached JOIN summary_children ON parent = reached.summary) "
)
"""Starts a query about the current context: `items` are its entries, `reached` its summaries and all below them.
Parameters: `context_parameters(call)`.
"""

_MAX_OUTCOME = 80


class Depth(NamedTuple):
    depth: int
    summaries: int
    tokens: int
    in_context: int


@dataclass(frozen=True, slots=True)
class Status:
    session_seen: bool
    """Whether anything of the current session is stored."""
    stored: int
    in_context: int
    below: int
    """Messages that are not in the context but covered by a summary in it."""
    context_tokens: int
    """Tokens of summaries and messages in the context."""
    represented_tokens: int
    """Tokens of all messages that the context holds or covers."""
    depths: list[Depth]
    fallbacks: int
    """Fallback summaries in the context or below."""
    compactions: int
    last: Row | None
    """The last compaction."""
    database_bytes: int
    embedded: int
    """Messages that have an embedding."""

    @property
    def elsewhere(self) -> int:
        """Messages of another branch, undone, or before a reset."""
        return self.stored - self.in_context - self.below

    @property
    def coverage(self) -> float:
        """Share of the stored messages that the context holds or covers."""
        return (self.in_context + self.below) / self.stored if self.stored else 1.0

    @property
    def ratio(self) -> float:
        """How many times smaller the context is than the messages that it holds or covers."""
        return self.represented_tokens / self.context_tokens if self.context_tokens else 1.0


def status_text(call: CallContext) -> str:
    """Describe the conversation in numbers. Quotes no message, so a group may read the text."""
    return "\n".join(_lines(call, status(call)))


def context_parameters(call: CallContext) -> dict[str, str]:
    return {"conversation": call.conversation_id, "session": call.session_id}


def status(call: CallContext) -> Status:
    with call.database.reading() as connection:
        return _status(connection, call)


def _status(connection: Connection, call: CallContext) -> Status:
    here = context_parameters(call)
    stored, embedded, session = connection.execute(
        "SELECT (SELECT count(*) FROM messages JOIN conversations AS c ON c.key = conversation "
        "WHERE c.id = :conversation), "
        "(SELECT coalesce(sum(messages), 0) FROM meanings JOIN conversations AS c ON c.key = conversation "
        "WHERE c.id = :conversation), "
        "EXISTS (SELECT 1 FROM sessions JOIN conversations AS c ON c.key = conversation "
        "WHERE c.id = :conversation AND sessions.id = :session)",
        here,
    ).fetchone()
    in_context, tokens_in_context = connection.execute(
        f"{CONTEXT_QUERY} SELECT count(*), coalesce(sum(tokens), 0) FROM items JOIN messages ON key = message",
        here,
    ).fetchone()
    below, tokens_below = connection.execute(
        f"{CONTEXT_QUERY} SELECT count(*), coalesce(sum(tokens), 0) FROM messages WHERE key IN "
        "(SELECT message FROM summary_messages WHERE summary IN (SELECT summary FROM reached) "
        "EXCEPT SELECT message FROM items)",
        here,
    ).fetchone()
    (summary_tokens,) = connection.execute(
        f"{CONTEXT_QUERY} SELECT coalesce(sum(tokens), 0) FROM items JOIN summaries ON key = summary", here
    ).fetchone()
    (fallbacks,) = connection.execute(
        f"{CONTEXT_QUERY} SELECT count(*) FROM reached JOIN summaries ON key = summary WHERE level = :level",
        {**here, "level": FALLBACK},
    ).fetchone()
    depths = connection.execute(
        f"{CONTEXT_QUERY} SELECT depth, count(*), sum(tokens), "
        "sum(summaries.key IN (SELECT summary FROM items WHERE summary IS NOT NULL)) "
        "FROM summaries JOIN conversations AS c ON c.key = summaries.conversation "
        "WHERE c.id = :conversation GROUP BY depth ORDER BY depth",
        here,
    )
    last = connection.execute(
        "SELECT compactions.*, count(*) OVER () AS number FROM compactions "
        "JOIN sessions ON sessions.key = session JOIN conversations AS c ON c.key = sessions.conversation "
        "WHERE c.id = :conversation ORDER BY compactions.key DESC LIMIT 1",
        here,
    ).fetchone()
    return Status(
        session_seen=bool(session),
        stored=stored,
        in_context=in_context,
        below=below,
        context_tokens=summary_tokens + tokens_in_context,
        represented_tokens=tokens_below + tokens_in_context,
        depths=[Depth(*row) for row in depths],
        fallbacks=fallbacks,
        compactions=last["number"] if last else 0,
        last=last,
        database_bytes=_size(call.database.path),
        embedded=embedded,
    )


def _size(path: Path) -> int:
    parts = (path, path.with_name(f"{path.name}-wal"))
    return sum(part.stat().st_size for part in parts if part.exists())


def _lines(call: CallContext, now: Status) -> Iterator[str]:
    window = f"In the window: {call.last_prompt_tokens:,}"
    if call.context_length:
        share = call.last_prompt_tokens / call.context_length
        window += f" of {call.context_length:,} tokens ({share:.0%})"
    else:
        window += " tokens"
    yield window + (f", compacted from {call.threshold_tokens:,} on" if call.threshold_tokens else "")
    yield (
        f"Messages: {now.stored:,} stored; {now.in_context:,} in the context, {now.below:,} below summaries in it, "
        f"{now.elsewhere:,} elsewhere (another branch, undone, or before a reset)"
    )
    if not now.session_seen:
        yield "Nothing of the current session is stored yet; its next message is."
    for each in now.depths:
        yield (
            f"Depth {each.depth}: {pluralize(each.summaries, 'summary', 'summaries')}, {each.tokens:,} tokens, "
            f"{each.in_context:,} in the context"
        )
    if not now.depths:
        yield "Summaries: none yet"
    # Rounded down, so that 100 % means everything.
    yield (
        f"Coverage: {int(now.coverage * 1000) / 10:g}% of the messages can be reached from the context; "
        f"{now.context_tokens:,} tokens represent {now.represented_tokens:,} of messages ({now.ratio:.1f} to 1)"
    )
    if now.last:
        tokens = f"{now.last['tokens_before']:,} -> {now.last['tokens_after']:,} tokens"
        outcome = in_a_note(now.last["outcome"])[:_MAX_OUTCOME]
        yield (
            f"Last compaction: {format_time(now.last['done_at'])} UTC, {tokens} in {now.last['seconds']:.1f} s "
            f"({outcome}); {now.compactions:,} in all"
        )
    else:
        yield "Last compaction: none yet"
    if now.fallbacks:
        yield f"Extracts that wait for a summary: {now.fallbacks:,}"
    if call.meaning and (reason := call.meaning.unavailable_reason):
        yield f"Search: by words ({reason})"
    elif now.embedded:
        yield f"Search: by words and by meaning ({now.embedded:,} of {now.stored:,} messages so far)"
    yield f"Database: {now.database_bytes / 1e6:,.1f} MB, for all conversations"
