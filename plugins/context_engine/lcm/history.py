"""What the engine did in a conversation, for those who look, and what is left over of what it did in vain."""

from __future__ import annotations

import sqlite3

LEFTOVERS = """
    SELECT key FROM summaries WHERE conversation = ?
        AND key NOT IN (SELECT child FROM summary_children)
        AND key NOT IN (SELECT summary FROM written_summaries)
        AND key NOT IN (SELECT summary FROM context_items WHERE summary IS NOT NULL)
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
    forget_leftovers(connection, conversation)


def forget_leftovers(connection: sqlite3.Connection, conversation: int) -> None:
    """Summaries of compactions that were cut off, which no record ever showed. No message is touched."""
    while keys := [(row["key"],) for row in connection.execute(LEFTOVERS, (conversation,))]:
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
