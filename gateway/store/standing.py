"""How things stand, for somebody who looks from outside while a gateway may be at work."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from gateway.store.connection import connect_reader
from gateway.store.errors import translated


@dataclass(frozen=True, slots=True)
class Today:
    """What the models were asked since midnight."""

    calls: int
    prompt_tokens: int
    cache_read_tokens: int
    completion_tokens: int
    usd: float
    unpriced_calls: int


@dataclass(frozen=True, slots=True)
class LastCompaction:
    at: float
    conversation_id: str
    trigger: str
    engine: str
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class Standing:
    conversations: int
    waiting: int
    """Messages without a complete answer, those that are being answered included."""
    parked: int
    today: Today
    last_compaction: LastCompaction | None
    bytes: int
    """Of the database with its log."""


def standing(path: Path, *, midnight: float) -> Standing:
    """For reading only: nothing is made, migrated or locked."""
    with translated(), closing(connect_reader(path)) as connection:
        log = path.with_name(f"{path.name}-wal")
        return Standing(
            conversations=_number(connection, "SELECT count(*) FROM conversations"),
            waiting=_number(connection, "SELECT count(*) FROM inbox WHERE state = 'waiting'"),
            parked=_number(connection, "SELECT count(*) FROM inbox WHERE state = 'parked'")
            + _number(connection, "SELECT count(*) FROM outbox WHERE state = 'parked'"),
            today=_today(connection, midnight),
            last_compaction=_last_compaction(connection),
            bytes=sum(file.stat().st_size for file in (path, log) if file.exists()),
        )


def _number(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def _today(connection: sqlite3.Connection, midnight: float) -> Today:
    row = connection.execute(
        """
        SELECT count(*), coalesce(sum(prompt_tokens), 0), coalesce(sum(cache_read_tokens), 0),
            coalesce(sum(completion_tokens), 0), coalesce(sum(cost_usd), 0.0), count(*) - count(cost_usd)
        FROM model_calls WHERE created_at >= ?
        """,
        (midnight,),
    ).fetchone()
    return Today(*row)


def _last_compaction(connection: sqlite3.Connection) -> LastCompaction | None:
    row = connection.execute(
        """
        SELECT compactions.created_at, conversation_id, trigger, compactions.engine, tokens_before, tokens_after
        FROM compactions JOIN sessions ON sessions.id = session_id
        ORDER BY compactions.seq DESC LIMIT 1
        """
    ).fetchone()
    return LastCompaction(*row) if row else None
