# ruff: noqa: S608 - only our own lists of columns are put into the SQL; values are always bound
"""The writes of `SqliteSessions`. Each runs on the writer's thread, in a transaction that other writes may share.

A transaction can be repeated when the outcome of its commit is unknown: ids and times are made before it begins, and a
repeated write changes nothing.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

from agent.errors import HeadMoved, NotFound
from agent.llm import Usage
from agent.messages import Message
from agent.store import Compaction, Conversation, Fact, LearnedWindow, Session, Split
from gateway.store.sqlite import inbox, reads
from gateway.store.sqlite.rows import MESSAGE_COLUMNS, SESSION_COLUMNS, Row, message_row, messages_from
from gateway.store.sqlite.validation import check_same_conversation, context_ids, storable

_INSERT_MESSAGE = f"INSERT INTO messages ({MESSAGE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_SESSION = f"INSERT INTO sessions ({SESSION_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


def open_conversation(connection: sqlite3.Connection, conversation: Conversation) -> Conversation:
    """Insert the conversation unless there is one at its address."""
    known = reads.conversation_at(connection, conversation.address)
    if known:
        return known
    insert_conversation(connection, conversation)
    first = Session(conversation.live_session_id, conversation.id, None, None, conversation.created_at)
    insert_session(connection, first)
    return conversation


def insert_conversation(connection: sqlite3.Connection, conversation: Conversation) -> None:
    """Insert the row; its live session must follow in the same transaction."""
    address = conversation.address
    connection.execute(
        """
        INSERT INTO conversations
            (id, platform, chat_id, thread_id, user_id, person, live_session_id, created_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            conversation.id,
            address.platform,
            address.chat_id,
            address.thread_id,
            address.user_id,
            conversation.person,
            conversation.live_session_id,
            conversation.created_at,
        ),
    )


def append(
    connection: sqlite3.Connection,
    session_id: str,
    messages: Sequence[Message],
    answers: str = "",
    settles: Sequence[str] = (),
) -> list[Message]:
    """Store messages; those that an earlier run of the same transaction stored are left as they are."""
    rows = [message_row(message, session_id) for message in messages]
    try:
        connection.executemany(_INSERT_MESSAGE, rows)
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_UNIQUE or len(set(rows)) < len(rows):
            raise _as_not_found(error, session_id) from error
        _insert_missing(connection, messages, rows)
    if not rows:
        reads.session(connection, session_id)
    if answers or settles:
        conversation_id = reads.session(connection, session_id).conversation_id
        inbox.answer(connection, conversation_id, messages, answers, settles)
    return messages_from(rows)


def _insert_missing(connection: sqlite3.Connection, messages: Sequence[Message], rows: Sequence[Row]) -> None:
    """Insert the rows that are not stored. Raises IntegrityError if another message has the id of one of them."""
    for message, row in zip(messages, rows, strict=True):
        is_stored = connection.execute(
            f"SELECT 1 FROM messages WHERE id = ? AND ({MESSAGE_COLUMNS}) IS ({', '.join('?' * len(row))})",
            (message.id, *row),
        ).fetchone()
        if not is_stored:
            connection.execute(_INSERT_MESSAGE, row)


def pin(
    connection: sqlite3.Connection, session_id: str, system_prompt: str, model: str, engine: str
) -> Session:
    connection.execute(
        "UPDATE sessions SET system_prompt = ?, model = ?, engine = ? WHERE id = ? AND system_prompt IS NULL",
        (storable(system_prompt), model, engine, session_id),
    )
    return reads.session(connection, session_id)


def split(connection: sqlite3.Connection, split: Split) -> Session:
    if connection.execute("SELECT 1 FROM sessions WHERE id = ?", (split.child_id,)).fetchone():
        return reads.session(connection, split.child_id)
    parent = reads.session(connection, split.parent_id)
    if reads.conversation(connection, parent.conversation_id).live_session_id != parent.id:
        raise HeadMoved(f"({parent.conversation_id})")
    child = Session(
        split.child_id,
        parent.conversation_id,
        parent.id,
        split.reason,
        time.time(),
        split.engine,
        split.model,
        split.system_prompt,
    )
    insert_session(connection, child)
    new = [message for message in split.context if isinstance(message, Message)]
    append(connection, child.id, new)
    insert_context(connection, child, context_ids(split))
    connection.execute(
        "UPDATE conversations SET live_session_id = ? WHERE id = ?", (child.id, child.conversation_id)
    )
    if split.compaction:
        _insert_compaction(connection, child, split.compaction)
    return reads.session(connection, child.id)


def make_live(connection: sqlite3.Connection, session_id: str, instead_of: str) -> Conversation:
    wanted, left = reads.session(connection, session_id), reads.session(connection, instead_of)
    check_same_conversation(wanted, left)
    if reads.conversation(connection, left.conversation_id).live_session_id != left.id:
        raise HeadMoved(f"({left.conversation_id})")
    connection.execute(
        "UPDATE conversations SET live_session_id = ? WHERE id = ?", (wanted.id, wanted.conversation_id)
    )
    return reads.conversation(connection, wanted.conversation_id)


def record_usage(
    connection: sqlite3.Connection,
    session_id: str,
    usage: Usage,
    model: str,
    purpose: str,
    spender: str,
    called_at: float,
) -> None:
    """Store a model call once. Its session, its time and its numbers are its identity: `called_at` is taken before
    the transaction, so that a repeated transaction counts the call once."""
    row = (session_id, purpose, model, *astuple(usage), called_at, spender)
    columns = """session_id, purpose, model, prompt_tokens, completion_tokens, cache_read_tokens, cache_write_tokens,
        cost_usd, created_at, spender"""
    places = ", ".join("?" * len(row))
    try:
        is_new = connection.execute(
            f"""
            INSERT INTO model_calls ({columns}) SELECT {places}
            WHERE NOT EXISTS (
                SELECT 1 FROM model_calls WHERE session_id = ? AND created_at = ? AND ({columns}) IS ({places})
            )
            """,
            (*row, session_id, called_at, *row),
        ).rowcount
    except sqlite3.IntegrityError as error:
        raise _as_not_found(error, session_id) from error
    if is_new and purpose == "turn":
        connection.execute(
            "UPDATE sessions SET prompt_tokens = ? WHERE id = ?", (usage.prompt_tokens, session_id)
        )


def remember(connection: sqlite3.Connection, person: str, fact: Fact) -> None:
    connection.execute(
        """
        INSERT INTO facts (id, person, text, created_at, after_outside) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (id) DO NOTHING
        """,
        (fact.id, person, fact.text, fact.created_at, fact.after_outside),
    )


def forget(connection: sqlite3.Connection, person: str, fact_id: str) -> bool:
    return connection.execute("DELETE FROM facts WHERE id = ? AND person = ?", (fact_id, person)).rowcount > 0


def learn_window(connection: sqlite3.Connection, window: LearnedWindow) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO model_windows (model, believed, tokens, named, learned_at) VALUES (?, ?, ?, ?, ?)",
        (window.key, window.believed, window.tokens, window.named, window.learned_at),
    )


def forget_window(connection: sqlite3.Connection, key: str) -> None:
    connection.execute("DELETE FROM model_windows WHERE model = ?", (key,))


def save_state(connection: sqlite3.Connection, conversation_id: str, key: str, value: str) -> None:
    try:
        connection.execute(
            """
            INSERT INTO conversation_state (conversation_id, key, value) VALUES (?, ?, ?)
            ON CONFLICT (conversation_id, key) DO UPDATE SET value = excluded.value
            """,
            (conversation_id, key, storable(value)),
        )
    except sqlite3.IntegrityError as error:
        raise _as_not_found(error, conversation_id) from error


def insert_session(connection: sqlite3.Connection, session: Session) -> None:
    connection.execute(_INSERT_SESSION, _values(session))


def insert_context(connection: sqlite3.Connection, child: Session, message_ids: list[str]) -> None:
    """Insert references to messages of the same conversation. Raises NotFound."""
    written = connection.execute(
        """
        INSERT INTO session_context (session_id, position, message_seq)
        SELECT :child, wanted.key - json_array_length(:ids), messages.seq
        FROM json_each(:ids) AS wanted
        JOIN messages ON messages.id = wanted.value
        JOIN sessions ON sessions.id = messages.session_id AND sessions.conversation_id = :conversation
        """,
        {"child": child.id, "ids": json.dumps(message_ids), "conversation": child.conversation_id},
    ).rowcount
    if written != len(message_ids):
        raise NotFound("(a message of the context is not in this conversation)")


def _insert_compaction(connection: sqlite3.Connection, child: Session, compaction: Compaction) -> None:
    connection.execute(
        """
        INSERT INTO compactions (session_id, created_at, trigger, engine, messages_before, messages_after,
            tokens_before, tokens_after, focus, seconds, cost_usd, outcome)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (child.id, child.created_at, *_values(compaction)),
    )


def _values(record: Session | Compaction) -> tuple[Any, ...]:
    return tuple(storable(value) if isinstance(value, str) else value for value in astuple(record))


def _as_not_found(error: sqlite3.IntegrityError, wanted: str) -> Exception:
    """Return NotFound for a row that refers to a missing id, else the error itself."""
    return (
        NotFound(f"({wanted})") if error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY else error
    )
