"""What the engine did in a conversation, for those who look, and what is left over of what it did in vain."""

from __future__ import annotations

import sqlite3

LEFTOVERS = """
    SELECT key FROM summaries AS here WHERE conversation = :conversation
        AND created_at < (
            SELECT done_at FROM compactions JOIN sessions ON sessions.key = compactions.session
            WHERE sessions.conversation = :conversation ORDER BY compactions.key DESC LIMIT 1 OFFSET 1
        )
        AND NOT EXISTS (SELECT 1 FROM summary_children WHERE child = here.key)
        AND NOT EXISTS (SELECT 1 FROM written_summaries WHERE summary = here.key)
        AND NOT EXISTS (SELECT 1 FROM context_items WHERE summary = here.key)
"""
"""Summaries of compactions that were cut off, which no record ever showed. The next compaction may still use them, and
another engine of the same conversation may be at work: so only those from before the last two."""


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
    forget_leftovers(connection, conversation)


def forget_leftovers(connection: sqlite3.Connection, conversation: int) -> None:
    """From the top down. No message is touched."""
    here = {"conversation": conversation}
    while keys := [(row["key"],) for row in connection.execute(LEFTOVERS, here)]:
        connection.executemany("DELETE FROM summary_messages WHERE summary = ?", keys)
        connection.executemany("DELETE FROM summary_children WHERE parent = ?", keys)
        connection.executemany("DELETE FROM summaries WHERE key = ?", keys)


def counts(connection: sqlite3.Connection, conversation_id: str) -> dict[str, int]:
    """For the status line."""
    row = connection.execute(
        "SELECT (SELECT count(*) FROM messages WHERE conversation = here.key) AS messages, "
        "(SELECT count(*) FROM summaries WHERE conversation = here.key) AS summaries "
        "FROM conversations AS here WHERE id = ?",
        (conversation_id,),
    ).fetchone()
    return {"stored_messages": row["messages"], "summaries": row["summaries"]} if row else {}
