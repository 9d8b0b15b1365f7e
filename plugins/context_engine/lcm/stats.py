# ruff: noqa: S608 - only a constant query is put into the SQL
"""Statistics of a conversation: its status, its compactions, and the cleanup of unused summaries."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent.untrusted import in_a_note

from .search.semantic import count_embedded
from .tools.context import CallContext

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
    connection: sqlite3.Connection,
    conversation: int,
    session_id: str,
    *,
    before: int,
    after: int,
    summaries: int,
    outcome: str,
    seconds: float,
    now: float,
) -> None:
    connection.execute(
        "INSERT INTO compactions "
        "(session, tokens_before, tokens_after, summaries, outcome, seconds, done_at) "
        "SELECT key, ?, ?, ?, ?, ?, ? FROM sessions WHERE conversation = ? AND id = ?",
        (before, after, summaries, outcome, seconds, now, conversation, session_id),
    )
    delete_leftovers(connection, conversation)


def delete_leftovers(connection: sqlite3.Connection, conversation: int) -> None:
    """Delete unused summaries from the top down. Messages stay."""
    here = {"conversation": conversation}
    while keys := [(row["key"],) for row in connection.execute(LEFTOVER_SUMMARIES, here)]:
        connection.executemany("DELETE FROM summary_messages WHERE summary = ?", keys)
        connection.executemany("DELETE FROM summary_children WHERE parent = ?", keys)
        connection.executemany("DELETE FROM summaries WHERE key = ?", keys)


def status_counts(connection: sqlite3.Connection, conversation_id: str) -> dict[str, int]:
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
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Depth:
    """Totals of one depth."""

    depth: int
    summaries: int
    tokens: int
    in_context: int


@dataclass(frozen=True, slots=True)
class LastCompaction:
    done_at: float
    tokens_before: int
    tokens_after: int
    seconds: float
    outcome: str


@dataclass(frozen=True, slots=True)
class Status:
    prompt_tokens: int
    context_length: int
    threshold_tokens: int
    """0 if unknown, because no engine is loaded."""
    session_seen: bool
    """Whether anything of the current session is stored."""
    stored: int
    in_context: int
    below: int
    """Messages that are not in the context but covered by a summary in it."""
    context_tokens: int
    """Tokens of summaries and messages in the context."""
    represented_tokens: int
    """Tokens of all messages that the context stands for."""
    depths: tuple[Depth, ...]
    stand_ins: int
    """Fallback summaries in the context or below."""
    compactions: int
    last: LastCompaction | None
    database_bytes: int
    by_meaning: int
    """Messages that have an embedding."""
    no_meaning: str
    """Why there is no semantic search, if known."""

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
        """How many times smaller the context is than the messages it stands for."""
        return self.represented_tokens / self.context_tokens if self.context_tokens else 1.0


def status(call: CallContext) -> Status:
    with call.database.reading() as connection:
        return _status(connection, call)


def status_text(now: Status) -> str:
    """Format the status. It quotes no message, so a group may read it."""
    return "\n".join(_lines(now))


def format_time(timestamp: float) -> str:
    """Format to the minute. Accepts any number, because a host may pass an invalid time."""
    try:
        return f"{_EPOCH + timedelta(seconds=timestamp):%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError):
        return "0000-00-00 00:00"


def format_period(earliest: float, latest: float) -> str:
    first, last = format_time(earliest), format_time(latest)
    if first == last:
        return f"{first} UTC"
    return f"{first} - {last[11:] if first[:10] == last[:10] else last} UTC"


def pluralize(number: int, thing: str, things: str = "") -> str:
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def context_parameters(call: CallContext) -> dict[str, str]:
    """Return the parameters of `CONTEXT_QUERY`."""
    return {"conversation": call.conversation_id, "session": call.session_id}


def _status(connection: sqlite3.Connection, call: CallContext) -> Status:
    here = context_parameters(call)
    stored, session = connection.execute(
        "SELECT (SELECT count(*) FROM messages JOIN conversations AS c ON c.key = conversation "
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
    (stand_ins,) = connection.execute(
        f"{CONTEXT_QUERY} SELECT count(*) FROM reached JOIN summaries ON key = summary WHERE level = 'stand_in'",
        here,
    ).fetchone()
    compactions, last = _compactions(connection, call)
    return Status(
        prompt_tokens=call.last_prompt_tokens,
        context_length=call.context_length,
        threshold_tokens=call.threshold_tokens,
        session_seen=bool(session),
        stored=stored,
        in_context=in_context,
        below=below,
        context_tokens=summary_tokens + tokens_in_context,
        represented_tokens=tokens_below + tokens_in_context,
        depths=tuple(_depths(connection, call)),
        stand_ins=stand_ins,
        compactions=compactions,
        last=last,
        database_bytes=_size(call.database.path),
        by_meaning=count_embedded(connection, call.conversation_id),
        no_meaning=call.meaning.unavailable_reason if call.meaning else "",
    )


def _depths(connection: sqlite3.Connection, call: CallContext) -> Iterator[Depth]:
    rows = connection.execute(
        f"{CONTEXT_QUERY} SELECT depth, count(*) AS summaries, sum(tokens) AS tokens, "
        "sum(summaries.key IN (SELECT summary FROM items WHERE summary IS NOT NULL)) AS in_context "
        "FROM summaries JOIN conversations AS c ON c.key = summaries.conversation "
        "WHERE c.id = :conversation GROUP BY depth ORDER BY depth",
        context_parameters(call),
    )
    for row in rows:
        yield Depth(row["depth"], row["summaries"], row["tokens"], row["in_context"])


def _compactions(connection: sqlite3.Connection, call: CallContext) -> tuple[int, LastCompaction | None]:
    rows = connection.execute(
        "SELECT compactions.*, count(*) OVER () AS number FROM compactions "
        "JOIN sessions ON sessions.key = session JOIN conversations AS c ON c.key = sessions.conversation "
        "WHERE c.id = :conversation ORDER BY compactions.key DESC LIMIT 1",
        context_parameters(call),
    )
    row = rows.fetchone()
    if row is None:
        return 0, None
    names = ("done_at", "tokens_before", "tokens_after", "seconds", "outcome")
    return row["number"], LastCompaction(*(row[name] for name in names))


def _size(path: Path) -> int:
    """Return the size with the write-ahead log."""
    parts = (path, path.with_name(f"{path.name}-wal"))
    return sum(part.stat().st_size for part in parts if part.exists())


def _lines(now: Status) -> Iterator[str]:
    window = f"In the window: {now.prompt_tokens:,}"
    if now.context_length:
        window += f" of {now.context_length:,} tokens ({now.prompt_tokens / now.context_length:.0%})"
    else:
        window += " tokens"
    yield window + (f", compacted from {now.threshold_tokens:,} on" if now.threshold_tokens else "")
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
    yield (
        f"Coverage: {_percent(now.coverage)} of the messages can be reached from the context; "
        f"{now.context_tokens:,} tokens represent {now.represented_tokens:,} of messages ({now.ratio:.1f} to 1)"
    )
    yield _last(now)
    if now.stand_ins:
        yield f"Extracts that wait for a summary: {now.stand_ins:,}"
    if now.no_meaning:
        yield f"Search: by words ({now.no_meaning})"
    elif now.by_meaning:
        yield f"Search: by words and by meaning ({now.by_meaning:,} of {now.stored:,} messages so far)"
    yield f"Database: {now.database_bytes / 1e6:,.1f} MB, for all conversations"


def _percent(share: float) -> str:
    """Round down, so that 100 % means everything."""
    return f"{int(share * 1000) / 10:g}%"


def _last(now: Status) -> str:
    if now.last is None:
        return "Last compaction: none yet"
    last = now.last
    outcome = in_a_note(last.outcome)[:_MAX_OUTCOME]
    return (
        f"Last compaction: {format_time(last.done_at)} UTC, {last.tokens_before:,} -> {last.tokens_after:,} tokens in "
        f"{last.seconds:.1f} s ({outcome}); {now.compactions:,} in all"
    )
