# ruff: noqa: S608 - only names of our own tables and columns are put into the SQL; values are always bound
"""Reads conversations from end to end without holding more than a few messages, while others may write."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agent.errors import StoreCorrupt
from agent.messages import Message
from agent.store import LearnedWindow, Overview, Session
from gateway.progress import tell
from gateway.store.errors import translated
from gateway.store.ports import ParkedItem
from gateway.store.sqlite import reads
from gateway.store.sqlite.batch_writer import commit_together
from gateway.store.sqlite.connection import connect_reader, connect_writer
from gateway.store.sqlite.queue_status import parked
from gateway.store.sqlite.rows import MESSAGE_COLUMNS, messages_from
from gateway.store.sqlite.search_index import advance, index_damage, progress, rebuild_index


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


@dataclass(frozen=True, slots=True)
class Health:
    index_damage: str | None
    parked: list[ParkedItem]
    log_bytes: int
    """Of the file in which what was written last waits to be taken over."""


def examine(path: Path) -> Health:
    """Reads all of it, for reading only: nothing is made, migrated or locked. Raises StoreCorrupt."""
    with translated(), closing(connect_reader(path)) as connection:
        if damage := reads.damage(connection):
            raise StoreCorrupt(f"({damage})")
        log = path.with_name(f"{path.name}-wal")
        return Health(index_damage(connection), parked(connection), log.stat().st_size if log.exists() else 0)


def parked_in(path: Path) -> list[ParkedItem]:
    with translated(), closing(connect_reader(path)) as connection:
        return parked(connection)


def learned_windows_in(path: Path) -> list[LearnedWindow]:
    with translated(), closing(connect_reader(path)) as connection:
        return reads.learned_windows(connection)


def finish_index(path: Path) -> None:
    """The rest of what is stored, so that the next search need not wait for it."""
    with translated(), closing(connect_writer(path)) as connection:
        while (so_far := progress(connection)).indexed < so_far.stored:
            tell("Building the search index", *so_far)
            commit_together(connection, [advance])
        tell("Building the search index", 1, 1)


def repair(path: Path) -> int:
    """The search index anew, also beside a running gateway. How many messages are in it."""
    with translated(), closing(connect_writer(path)) as connection:
        return rebuild_index(connection)


_AT_A_TIME = 200
_ALL = 1_000_000_000


class Exporter:
    """Made by `open`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Exporter]:
        """One view of the database to the end."""
        # Only what the store is asked is translated: what its user writes meanwhile may fail for reasons of its own.
        with translated():
            connection = connect_reader(path)
        with closing(connection):
            connection.execute("BEGIN")
            yield cls(connection)

    def conversations(
        self, *, person: str | None = None, platform: str | None = None, since: float = 0.0
    ) -> list[Overview]:
        """Those in which something was said since then, the one that was quiet longest first."""
        with translated():
            found = reads.conversations(self._connection, person, platform, _ALL)
        return [each for each in reversed(found) if each.messages and each.updated_at >= since]

    def sessions(self, conversation_id: str) -> list[Session]:
        with translated():
            return reads.sessions(self._connection, conversation_id)

    def messages(
        self, conversation_id: str, *, since: float = 0.0, every_session: bool = False
    ) -> Iterator[Message]:
        """What was said, oldest first: along the live session's ancestors, or in `every_session`."""
        with translated():
            numbers = iter(self._numbers(conversation_id, since, every_session=every_session))
        while some := list(islice(numbers, _AT_A_TIME)):
            with translated():
                messages = self._some(some)
            yield from messages

    def _numbers(self, conversation_id: str, since: float, *, every_session: bool) -> list[int]:
        live = reads.conversation(self._connection, conversation_id).live_session_id
        ancestry = f"{reads.ANCESTRY} SELECT session_id FROM ancestry"
        of_all = "SELECT id FROM sessions WHERE conversation_id = ?"
        rows = self._connection.execute(
            f"""
            SELECT seq FROM messages
            WHERE session_id IN ({of_all if every_session else ancestry}) AND kind = 'said' AND created_at >= ?
            ORDER BY seq
            """,
            (conversation_id if every_session else live, since),
        )
        return [seq for (seq,) in rows]

    def _some(self, numbers: list[int]) -> list[Message]:
        rows = self._connection.execute(
            f"""
            SELECT {MESSAGE_COLUMNS} FROM messages
            WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq
            """,
            (json.dumps(numbers),),
        )
        return messages_from(rows)
