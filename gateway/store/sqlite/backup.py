"""Copies of the database while others write to it, and checks of such copies."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from agent.errors import StoreCorrupt, StoreError
from gateway.progress import report
from gateway.store.errors import translated
from gateway.store.sqlite.connection import BUSY_TIMEOUT_SECONDS, refuse_unfinished_restore
from gateway.store.sqlite.migrate import check_not_newer, load_migrations, migrate, schema_version
from gateway.store.sqlite.search_index import index_damage, rebuild_index

STEP_PAGES = 256
PAUSE_SECONDS = 0.002
"""The pause after each megabyte, in which the gateway can write."""


class DatabaseContents(NamedTuple):
    """The numbers by which a copy is compared with its original."""

    schema: int
    conversations: int
    messages: int


def copy_database(source: Path, target: Path) -> DatabaseContents:
    """Copy all committed data into a new single file."""
    refuse_unfinished_restore(source)
    with translated():
        create_private(target)
        with opened(source, "ro") as original, opened(target, "rw") as copy:
            check_not_newer(original, load_migrations())
            # One read transaction to the end. Without it SQLite restarts the copy after each write, and beside a busy
            # gateway it would never finish. Writers do not wait for a reader.
            original.execute("BEGIN")
            held = contents(original)
            copied(original, copy)
    return held


def copied(original: sqlite3.Connection, copy: sqlite3.Connection) -> None:
    copy.execute("PRAGMA synchronous = OFF")  # the caller waits for the disk once
    original.backup(
        copy,
        pages=STEP_PAGES,
        progress=lambda _, left, total: report("Copying the database", total - left, total),
        sleep=PAUSE_SECONDS,
    )
    copy.execute("PRAGMA journal_mode = DELETE")


def contents(connection: sqlite3.Connection) -> DatabaseContents:
    """Count rows in tables that every version of the schema has."""
    if schema_version(connection) == 0:
        raise StoreError("The database is empty.")
    (conversations,) = connection.execute("SELECT count(*) FROM conversations").fetchone()
    (messages,) = connection.execute("SELECT count(*) FROM messages").fetchone()
    return DatabaseContents(schema_version(connection), conversations, messages)


def verify(path: Path, expected: DatabaseContents | None = None) -> DatabaseContents:
    """Read the whole database. Raises StoreCorrupt or NewerSchema."""
    report("Checking the database", 0, 0)
    with translated(), opened(path, "ro") as connection:
        check_not_newer(connection, load_migrations())
        found = [row[0] for row in connection.execute("PRAGMA integrity_check(3)")]
        if found != ["ok"]:
            raise StoreCorrupt(f"({'; '.join(found)})")
        dangling = connection.execute("PRAGMA foreign_key_check").fetchone()
        if dangling is not None:
            raise StoreCorrupt(f"(a row of `{dangling[0]}` refers to a missing row)")
        held = contents(connection)
    if expected is not None and held != expected:
        raise StoreCorrupt(f"(it contains {held.messages} messages instead of {expected.messages})")
    return held


def newest_message(path: Path) -> float | None:
    """Return the time of the newest message; None if there is none."""
    with translated(), opened(path, "ro") as connection:
        (newest,) = connection.execute("SELECT max(created_at) FROM messages").fetchone()
    return None if newest is None else float(newest)


def read_contents(path: Path) -> tuple[DatabaseContents, float | None] | None:
    """Return the contents of a database and the time of its newest message; None if it cannot be read."""
    if not path.exists():
        return None
    try:
        newest = newest_message(path)
        with translated(), opened(path, "rw") as connection:  # leaves no -wal and -shm files behind
            return contents(connection), newest
    except StoreError:
        return None


def prepare_copy(path: Path) -> None:
    """Migrate a copy that no other process uses, rebuild a damaged search index and write the file to disk.

    Replies that were pending when the copy was made may have been sent since. They count as `sending`, so that they are
    sent again with a note about the possible duplicate.
    """
    with translated():
        with opened(path, "rw") as connection:
            migrate(connection, load_migrations())
            if index_damage(connection):
                rebuild_index(connection)
            connection.execute(
                "UPDATE outbox SET state = 'sending' WHERE state = 'pending' AND content IS NOT NULL"
            )
        with path.open("rb") as file:
            os.fsync(file.fileno())


def checkpoint(path: Path) -> None:
    """Move the write-ahead log into the database file. A damaged database stays as it is."""
    with suppress(sqlite3.Error), opened(path, "rw") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@contextmanager
def opened(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    uri = f"file:{quote(str(path))}?mode={mode}"
    with closing(
        sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_SECONDS)
    ) as connection:
        yield connection


def create_private(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
