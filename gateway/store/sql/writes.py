# ruff: noqa: S608 - only our own lists of columns are put into the SQL; values are always bound
"""The writes of `SqlSessions`. Each runs in a transaction that other writes may share.

A transaction can be repeated when the outcome of its commit is unknown: ids and times are made before it begins, and a
repeated write changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import astuple
from itertools import chain
from typing import Any

from agent.errors import HeadMoved, NotFound, StoreError
from agent.llm import Usage
from agent.messages import Message
from agent.store import Compaction, Conversation, Fact, LearnedWindow, Session, Split
from gateway.store.sql import inbox, reads
from gateway.store.sql.database import Connection, batches, marks
from gateway.store.sql.reports import local_day
from gateway.store.sql.rows import (
    MESSAGE_COLUMNS,
    SESSION_COLUMNS,
    Row,
    check_same_conversation,
    context_ids,
    message_row,
    messages_from,
    storable,
)

_INSERT_MESSAGE = f"""
    INSERT INTO messages ({MESSAGE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING
"""
_ID = MESSAGE_COLUMNS.split(", ").index("id")
_INSERT_SESSION = f"INSERT INTO sessions ({SESSION_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


def open_conversation(connection: Connection, conversation: Conversation) -> Conversation:
    """Insert the conversation unless there is one at its address."""
    if not insert_conversation(connection, conversation):
        return reads.conversation_at(connection, conversation.address) or conversation
    first = Session(conversation.live_session_id, conversation.id, None, None, conversation.created_at)
    insert_session(connection, first)
    return conversation


def insert_conversation(connection: Connection, conversation: Conversation) -> bool:
    """Insert the row unless its address is known; its live session must follow in the same transaction."""
    address = conversation.address
    inserted = connection.execute(
        """
        INSERT INTO conversations
            (id, platform, chat_id, thread_id, user_id, person, live_session_id, created_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (platform, chat_id, thread_id, user_id) DO NOTHING
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
    return inserted.rowcount > 0


def append(
    connection: Connection,
    session_id: str,
    messages: Sequence[Message],
    answers: str = "",
    settles: Sequence[str] = (),
) -> list[Message]:
    """Store messages; those that an earlier run of the same transaction stored are left as they are."""
    conversation_id = _conversation_of(connection, session_id)
    rows = [message_row(message, session_id) for message in messages]
    sources = {message.source_id for message in messages if message.source_id}
    if missing := sources - reads.known(connection, list(sources)):
        raise NotFound(f"({', '.join(missing)})")
    if rows and connection.executemany(_INSERT_MESSAGE, rows).rowcount < len(rows):
        _check_repeated(connection, rows)
    if answers or settles:
        inbox.answer(connection, conversation_id, messages, answers, settles)
    return messages_from(rows)


def _conversation_of(connection: Connection, session_id: str) -> str:
    row = connection.execute("SELECT conversation_id FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise NotFound(f"({session_id})")
    return str(row[0])


def _check_repeated(connection: Connection, rows: Sequence[Row]) -> None:
    """Refuse a message whose id belongs to another message."""
    for row in rows:
        message_id = row[_ID]
        stored = connection.execute(f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE id = ?", (message_id,))
        if tuple(stored.fetchone()) != row or rows.count(row) > 1:
            raise StoreError(f"Another message has the id {message_id}.")


def pin(connection: Connection, session_id: str, system_prompt: str, model: str) -> Session:
    connection.execute(
        "UPDATE sessions SET system_prompt = ?, model = ? WHERE id = ? AND system_prompt IS NULL",
        (storable(system_prompt), model, session_id),
    )
    return reads.session(connection, session_id)


def split(connection: Connection, split: Split) -> Session:
    if connection.execute("SELECT 1 FROM sessions WHERE id = ?", (split.child_id,)).fetchone():
        return reads.session(connection, split.child_id)
    parent = reads.session(connection, split.parent_id)
    _move_head(connection, parent.conversation_id, split.child_id, instead_of=parent.id)
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
    if split.compaction:
        _insert_compaction(connection, child, split.compaction)
    return reads.session(connection, child.id)


def _move_head(connection: Connection, conversation_id: str, session_id: str, *, instead_of: str) -> None:
    """Make a session the live one. Raises HeadMoved if another than `instead_of` is live."""
    moved = connection.execute(
        "UPDATE conversations SET live_session_id = ? WHERE id = ? AND live_session_id = ?",
        (session_id, conversation_id, instead_of),
    )
    if not moved.rowcount:
        raise HeadMoved(f"({conversation_id})")


def make_live(connection: Connection, session_id: str, instead_of: str) -> Conversation:
    wanted, left = reads.session(connection, session_id), reads.session(connection, instead_of)
    check_same_conversation(wanted, left)
    _move_head(connection, left.conversation_id, wanted.id, instead_of=left.id)
    return reads.conversation(connection, wanted.conversation_id)


def record_usage(
    connection: Connection,
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
    known = connection.execute(
        f"SELECT {columns} FROM model_calls WHERE session_id = ? AND created_at = ?", (session_id, called_at)
    )
    if row in known.fetchall():
        return
    _conversation_of(connection, session_id)
    connection.execute(f"INSERT INTO model_calls ({columns}) VALUES ({marks(row)})", row)
    connection.execute(
        """
        INSERT INTO spending (day, spender, model, calls, prompt_tokens, completion_tokens, cache_read_tokens,
            cache_write_tokens, cost_usd, unpriced_calls)
        VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (day, spender, model) DO UPDATE SET
            calls = spending.calls + 1,
            prompt_tokens = spending.prompt_tokens + excluded.prompt_tokens,
            completion_tokens = spending.completion_tokens + excluded.completion_tokens,
            cache_read_tokens = spending.cache_read_tokens + excluded.cache_read_tokens,
            cache_write_tokens = spending.cache_write_tokens + excluded.cache_write_tokens,
            cost_usd = spending.cost_usd + excluded.cost_usd,
            unpriced_calls = spending.unpriced_calls + excluded.unpriced_calls
        """,
        (
            local_day(called_at),
            spender,
            model,
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.cost_usd or 0.0,
            int(usage.cost_usd is None),
        ),
    )
    if purpose == "turn":
        connection.execute(
            "UPDATE sessions SET prompt_tokens = ? WHERE id = ?", (usage.prompt_tokens, session_id)
        )


def remember(connection: Connection, person: str, fact: Fact) -> None:
    connection.execute(
        """
        INSERT INTO facts (id, person, text, created_at, after_outside) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (id) DO NOTHING
        """,
        (fact.id, person, fact.text, fact.created_at, int(fact.after_outside)),
    )


def forget(connection: Connection, person: str, fact_id: str) -> bool:
    return connection.execute("DELETE FROM facts WHERE id = ? AND person = ?", (fact_id, person)).rowcount > 0


def learn_window(connection: Connection, window: LearnedWindow) -> None:
    connection.execute(
        """
        INSERT INTO model_windows (model, believed, tokens, named, learned_at) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (model) DO UPDATE SET believed = excluded.believed, tokens = excluded.tokens,
            named = excluded.named, learned_at = excluded.learned_at
        """,
        (window.key, window.believed, window.tokens, int(window.named), window.learned_at),
    )


def forget_window(connection: Connection, key: str) -> None:
    connection.execute("DELETE FROM model_windows WHERE model = ?", (key,))


def save_state(connection: Connection, conversation_id: str, key: str, value: str) -> None:
    saved = connection.execute(
        """
        INSERT INTO conversation_state (conversation_id, key, value)
        SELECT id, ?, ? FROM conversations WHERE id = ?
        ON CONFLICT (conversation_id, key) DO UPDATE SET value = excluded.value
        """,
        (key, storable(value), conversation_id),
    )
    if not saved.rowcount:
        raise NotFound(f"({conversation_id})")


def insert_session(connection: Connection, session: Session) -> None:
    connection.execute(_INSERT_SESSION, _values(session))


def insert_context(connection: Connection, child: Session, message_ids: list[str]) -> None:
    """Insert references to messages of the same conversation. Raises NotFound."""
    written = 0
    for batch in batches(list(enumerate(message_ids, start=-len(message_ids)))):
        written += connection.execute(
            f"""
            INSERT INTO session_context (session_id, position, message_seq)
            SELECT ?, wanted.column1, messages.seq
            FROM (VALUES {", ".join(["(?, ?)"] * len(batch))}) AS wanted
            JOIN messages ON messages.id = wanted.column2
            JOIN sessions ON sessions.id = messages.session_id AND sessions.conversation_id = ?
            """,
            (child.id, *chain.from_iterable(batch), child.conversation_id),
        ).rowcount
    if written != len(message_ids):
        raise NotFound("(a message of the context is not in this conversation)")


def _insert_compaction(connection: Connection, child: Session, compaction: Compaction) -> None:
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
