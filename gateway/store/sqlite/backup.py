"""A copy of the database while others write to it, and what a copy must stand up to before anybody relies on it."""

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
from gateway.store.sqlite.connection import BUSY_TIMEOUT_SECONDS, refuse_half_restored
from gateway.store.sqlite.migrate import check_not_newer, load_migrations, migrate, schema_version
from gateway.store.sqlite.search_index import index_damage, rebuild_index

STEP_PAGES = 256
PAUSE_SECONDS = 0.002
"""A megabyte at a time: between two steps the disk belongs to whoever is writing messages."""


class Contents(NamedTuple):
    """What a database holds."""

    schema: int
    conversations: int
    messages: int


def copy_database(source: Path, target: Path) -> Contents:
    """All that was committed when it began, into a new file that needs no other beside it."""
    refuse_half_restored(source)
    with translated():
        create_private(target)
        with opened(source, "ro") as original, opened(target, "rw") as copy:
            check_not_newer(original, load_migrations())
            # One view of the database to the end. Without it SQLite starts over whenever somebody writes, and beside
            # a busy gateway it would never arrive. Writers do not wait for a reader.
            original.execute("BEGIN")
            held = contents(original)
            copied(original, copy)
    return held


def copied(original: sqlite3.Connection, copy: sqlite3.Connection) -> None:
    copy.execute("PRAGMA synchronous = OFF")  # whoever made it waits for the disk, once
    original.backup(
        copy,
        pages=STEP_PAGES,
        progress=lambda _, left, total: report("Copying the database", total - left, total),
        sleep=PAUSE_SECONDS,
    )
    copy.execute("PRAGMA journal_mode = DELETE")


def contents(connection: sqlite3.Connection) -> Contents:
    """In tables that every version of the schema has."""
    if schema_version(connection) == 0:
        raise StoreError("It is an empty database.")
    (conversations,) = connection.execute("SELECT count(*) FROM conversations").fetchone()
    (messages,) = connection.execute("SELECT count(*) FROM messages").fetchone()
    return Contents(schema_version(connection), conversations, messages)


def verify(path: Path, expected: Contents | None = None) -> Contents:
    """Reads all of it. Raises StoreCorrupt, or NewerSchema."""
    report("Checking the database", 0, 0)
    with translated(), opened(path, "ro") as connection:
        check_not_newer(connection, load_migrations())
        found = [row[0] for row in connection.execute("PRAGMA integrity_check(3)")]
        if found != ["ok"]:
            raise StoreCorrupt(f"({'; '.join(found)})")
        dangling = connection.execute("PRAGMA foreign_key_check").fetchone()
        if dangling is not None:
            raise StoreCorrupt(f"(a row of `{dangling[0]}` refers to one that is not there)")
        held = contents(connection)
    if expected is not None and held != expected:
        raise StoreCorrupt(f"(it holds {held.messages} messages, and {expected.messages} are expected)")
    return held


def newest_message(path: Path) -> float | None:
    """When it was stored; None where there is none."""
    with translated(), opened(path, "ro") as connection:
        (newest,) = connection.execute("SELECT max(created_at) FROM messages").fetchone()
    return None if newest is None else float(newest)


def held_by(path: Path) -> tuple[Contents, float | None] | None:
    """What a database holds, and when the newest message was stored; None where that cannot be read."""
    if not path.exists():
        return None
    try:
        with translated(), opened(path, "ro") as connection:
            found = contents(connection)
        return found, newest_message(path)
    except StoreError:
        return None


def bring_up_to_date(path: Path) -> None:
    """To the schema of this Hermes and with a search index that works, in a file that nobody else uses yet.

    What was on its way to a chat may have arrived since the copy was made, so it counts as begun: it is sent again
    with a word about that. On the disk when this returns.
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


def take_in_log(path: Path) -> None:
    """What stands in the log goes into the file, so that the file is all there is. A damaged one stays as it is."""
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
