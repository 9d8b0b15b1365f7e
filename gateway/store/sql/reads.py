# ruff: noqa: S608 - only our own lists of columns are put into the SQL; values are always bound
"""The queries of `SqlSessions`. Each runs on a connection for reading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from agent.errors import NotFound
from agent.llm import Usage
from agent.messages import Message
from agent.store import Address, Compaction, Conversation, Fact, LearnedWindow, Overview, Session, Spent
from gateway.store.sql.database import Connection, batches, marks
from gateway.store.sql.rows import (
    CONVERSATION_COLUMNS,
    MESSAGE_COLUMNS,
    SESSION_COLUMNS,
    conversation_from,
    messages_from,
    title_from,
)

T = TypeVar("T")

ANCESTRY = """
    WITH RECURSIVE ancestry (session_id, depth) AS (
        VALUES (?, 0)
        UNION ALL
        SELECT parent_id, depth + 1 FROM ancestry JOIN sessions ON id = session_id WHERE parent_id IS NOT NULL
    )
"""


LAST_SEQ = """
    (
        SELECT max((SELECT max(seq) FROM messages WHERE session_id = sessions.id AND kind = 'said'))
        FROM sessions WHERE conversation_id = conversations.id
    )
"""
"""The seq of the last message of a conversation; one index lookup per session."""

LISTED_COLUMNS = f"""
    {CONVERSATION_COLUMNS},
    (
        SELECT content FROM sessions JOIN messages ON messages.session_id = sessions.id
        WHERE conversation_id = listed.id AND kind = 'said' AND role = 'user'
        ORDER BY sessions.seq, messages.seq LIMIT 1
    ),
    (
        SELECT count(*) FROM sessions JOIN messages ON messages.session_id = sessions.id
        WHERE conversation_id = listed.id AND kind = 'said'
    ),
    (SELECT count(*) FROM sessions WHERE conversation_id = listed.id)
"""
"""The columns of `listed` conversations, with their first message and the numbers of messages and sessions."""

NO_LIMIT = 1_000_000_000

UPDATED_AT = "coalesce((SELECT created_at FROM messages WHERE seq = last_seq), created_at)"


def conversation(connection: Connection, conversation_id: str) -> Conversation:
    row = connection.execute(
        f"SELECT {CONVERSATION_COLUMNS} FROM conversations WHERE id = ?", (conversation_id,)
    ).fetchone()
    return conversation_from(_found(row, conversation_id))


def conversation_at(connection: Connection, address: Address) -> Conversation | None:
    row = connection.execute(
        f"""
        SELECT {CONVERSATION_COLUMNS} FROM conversations
        WHERE platform = ? AND chat_id = ? AND thread_id = ? AND user_id = ?
        """,
        (address.platform, address.chat_id, address.thread_id, address.user_id),
    ).fetchone()
    return conversation_from(row) if row else None


def conversation_filter(person: str | None, platform: str | None) -> tuple[str, list[str]]:
    """Return a condition on conversations and its values."""
    wanted = {"person": person, "platform": platform}
    given = {column: value for column, value in wanted.items() if value is not None}
    return " AND ".join(["TRUE", *(f"{column} = ?" for column in given)]), list(given.values())


def conversations(
    connection: Connection, *, person: str | None = None, platform: str | None = None, limit: int = 50
) -> list[Overview]:
    condition, values = conversation_filter(person, platform)
    rows = connection.execute(
        f"""
        WITH listed AS (
            SELECT seq, {CONVERSATION_COLUMNS}, {LAST_SEQ} AS last_seq FROM conversations WHERE {condition}
            ORDER BY last_seq DESC NULLS LAST, seq DESC
            LIMIT ?
        )
        SELECT {LISTED_COLUMNS}, {UPDATED_AT} FROM listed ORDER BY last_seq DESC NULLS LAST, seq DESC
        """,
        (*values, max(limit, 0)),
    ).fetchall()
    return [Overview(conversation_from(row[:-4]), title_from(row[-4]), *row[-3:]) for row in rows]


def session(connection: Connection, session_id: str) -> Session:
    row = connection.execute(f"SELECT {SESSION_COLUMNS} FROM sessions WHERE id = ?", (session_id,)).fetchone()
    return Session(*_found(row, session_id))


def sessions(connection: Connection, conversation_id: str) -> list[Session]:
    rows = connection.execute(
        f"SELECT {SESSION_COLUMNS} FROM sessions WHERE conversation_id = ? ORDER BY seq", (conversation_id,)
    ).fetchall()
    _found(rows, conversation_id)  # every conversation has a session
    return [Session(*row) for row in rows]


def lineage(connection: Connection, session_id: str) -> list[Session]:
    rows = connection.execute(
        f"""
        {ANCESTRY}
        SELECT {SESSION_COLUMNS} FROM ancestry JOIN sessions ON id = session_id ORDER BY depth DESC
        """,
        (session_id,),
    ).fetchall()
    _found(rows, session_id)
    return [Session(*row) for row in rows]


def history(connection: Connection, session_id: str) -> list[Message]:
    """Return the context of the session and its own messages and notes, in order.

    Positions are negative and seqs are positive, so that one ORDER BY sorts both. A note in the context is not
    repeated. The largest part comes last, where it is merged once.
    """
    rows = connection.execute(
        f"""
        SELECT {MESSAGE_COLUMNS}, position AS place
        FROM (SELECT position, message_seq FROM session_context WHERE session_id = :session) AS context
        JOIN messages ON seq = message_seq
        UNION ALL
        SELECT {MESSAGE_COLUMNS}, seq FROM messages
        WHERE session_id = :session AND kind = 'note'
            AND seq NOT IN (SELECT message_seq FROM session_context WHERE session_id = :session)
        UNION ALL
        SELECT {MESSAGE_COLUMNS}, seq FROM messages WHERE session_id = :session AND kind = 'said'
        ORDER BY place
        """,
        {"session": session_id},
    )
    messages = messages_from(rows)
    if not messages:
        session(connection, session_id)
    return messages


def transcript(connection: Connection, conversation_id: str, *, limit: int | None = None) -> list[Message]:
    """Return the messages of the live session and its ancestors; the index selects the newest before any is read."""
    live = conversation(connection, conversation_id).live_session_id
    rows = connection.execute(
        f"""
        {ANCESTRY}
        SELECT {MESSAGE_COLUMNS} FROM messages
        WHERE seq IN (
            SELECT seq FROM messages
            WHERE session_id IN (SELECT session_id FROM ancestry) AND kind = 'said'
            ORDER BY seq DESC LIMIT ?
        )
        ORDER BY seq
        """,
        (live, NO_LIMIT if limit is None else max(limit, 0)),
    )
    return messages_from(rows)


def compactions(connection: Connection, conversation_id: str) -> list[tuple[str, Compaction]]:
    conversation(connection, conversation_id)
    rows = connection.execute(
        """
        SELECT session_id, trigger, compactions.engine, messages_before, messages_after, tokens_before,
            tokens_after, focus, seconds, cost_usd, outcome
        FROM compactions JOIN sessions ON sessions.id = session_id
        WHERE conversation_id = ? ORDER BY compactions.seq
        """,
        (conversation_id,),
    ).fetchall()
    return [(session_id, Compaction(*values)) for session_id, *values in rows]


def usage(connection: Connection, *, conversation_id: str | None = None) -> Usage:
    calls = "model_calls"
    if conversation_id is not None:
        conversation(connection, conversation_id)
        of_conversation = "SELECT id FROM sessions WHERE conversation_id = :conversation"
        calls = f"({of_conversation}) AS own JOIN model_calls ON session_id = id"
    row = connection.execute(
        f"""
        SELECT coalesce(sum(prompt_tokens), 0), coalesce(sum(completion_tokens), 0),
            coalesce(sum(cache_read_tokens), 0), coalesce(sum(cache_write_tokens), 0), sum(cost_usd)
        FROM {calls}
        """,
        {"conversation": conversation_id},
    ).fetchone()
    return Usage(*row)


def spent(connection: Connection, *, spender: str | None = None, since: float = 0.0) -> Spent:
    """Add up costs along an index: this query runs before each model call."""
    whose = "" if spender is None else "spender = :spender AND"
    row = connection.execute(
        f"""
        SELECT coalesce(sum(cost_usd), 0.0), count(*) - count(cost_usd),
            coalesce(sum(prompt_tokens + completion_tokens) FILTER (WHERE cost_usd IS NULL), 0)
        FROM model_calls WHERE {whose} created_at >= :since
        """,
        {"spender": spender, "since": since},
    ).fetchone()
    return Spent(*row)


def facts(connection: Connection, person: str) -> list[Fact]:
    rows = connection.execute(
        "SELECT id, text, created_at, after_outside FROM facts WHERE person = ? ORDER BY seq", (person,)
    ).fetchall()
    return [Fact(id_, text, at, bool(after_outside)) for id_, text, at, after_outside in rows]


def known(connection: Connection, message_ids: Sequence[str]) -> set[str]:
    return {
        message_id
        for batch in batches(list(message_ids))
        for (message_id,) in connection.execute(
            f"SELECT id FROM messages WHERE id IN ({marks(batch)})", batch
        )
    }


def learned_windows(connection: Connection) -> list[LearnedWindow]:
    rows = connection.execute("SELECT model, believed, tokens, named, learned_at FROM model_windows")
    windows = []
    for key, believed, tokens, named, at in rows:
        model, _, endpoint = key.partition(" ")
        windows.append(LearnedWindow(model, believed, tokens, bool(named), at, endpoint))
    return windows


def load_state(connection: Connection, conversation_id: str, key: str) -> str | None:
    row = connection.execute(
        """
        SELECT value FROM conversations LEFT JOIN conversation_state ON conversation_id = id AND key = ?
        WHERE id = ?
        """,
        (key, conversation_id),
    ).fetchone()
    value: str | None = _found(row, conversation_id)[0]
    return value


def _found(answer: T | None, wanted: str) -> T:
    if not answer:
        raise NotFound(f"({wanted})")
    return answer
