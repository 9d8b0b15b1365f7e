# ruff: noqa: S608 - only our own names of tables are put into the SQL; values are always bound
"""A search index that has lost touch with the messages: how that is found out, and how it is made anew from them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.fts_text import parse_query, quoted
from gateway.progress import tell
from gateway.store.index import advance, create, entries_after, progress, searched_text
from gateway.store.writer import commit_together

PROBES = 50
"""Messages that are looked up by their words."""

_TABLES = ("message_index_data", "message_index_idx", "message_index_docsize", "message_index_config")
"""Where FTS5 keeps the index: ordinary tables, whatever state the index is in."""

UNREADABLE = (sqlite3.DatabaseError, MemoryError)
"""A damaged block can name a length for which no memory suffices."""

_SETTINGS = {"automerge": 0, "crisismerge": 1000}
"""As in the migration that made the index."""


def index_damage(connection: sqlite3.Connection) -> str | None:
    """What is wrong with the index, if anything. Only reads, so nobody who writes waits for it."""
    connection.execute("BEGIN")  # one view of both, while others write
    try:
        return _unlike_the_messages(connection) or _broken_inside(connection) or _finds_too_little(connection)
    except UNREADABLE as error:  # a table of it is missing, or cannot be read
        return str(error) or "out of memory"
    finally:
        connection.execute("ROLLBACK")


def rebuild_index(connection: sqlite3.Connection) -> int:
    """From the messages, in steps that let others write in between. How many there are."""
    commit_together(connection, [_make_empty])
    while (so_far := progress(connection)).indexed < so_far.stored:
        commit_together(connection, [advance])
        tell("Building the search index", *progress(connection))
    (count,) = connection.execute("SELECT count(*) FROM message_index_docsize").fetchone()
    return int(count)


def _unlike_the_messages(connection: sqlite3.Connection) -> str | None:
    row = connection.execute("SELECT seq FROM index_progress").fetchone()
    if row is None:
        return "its note of how far it reaches is missing"
    indexed, stored = progress(connection)
    if indexed > stored:
        return f"it claims to reach message {indexed}, and the last one is {stored}"
    said = "SELECT seq FROM messages WHERE kind = 'said' AND seq <= ?"
    (missing,) = connection.execute(
        f"SELECT count(*) FROM ({said}) WHERE seq NOT IN (SELECT id FROM message_index_docsize)", (indexed,)
    ).fetchone()
    if missing:
        return f"{missing} messages are missing from it"
    (surplus,) = connection.execute(
        f"SELECT count(*) FROM message_index_docsize WHERE id NOT IN ({said})", (indexed,)
    ).fetchone()
    return f"{surplus} of its entries belong to no message" if surplus else None


def _broken_inside(connection: sqlite3.Connection) -> str | None:
    """FTS5 looks itself over, in a copy: it does so by way of an INSERT, for which every writer would have to wait."""
    with TemporaryDirectory(prefix="hermes-index-") as directory:
        copy = Path(directory) / "index.db"
        with closing(sqlite3.connect(copy, isolation_level=None)) as filled:
            filled.execute("PRAGMA journal_mode = OFF")
            create(filled)
            _fill(connection, filled)
        # A second connection, because the first remembers an empty index.
        with closing(sqlite3.connect(copy, isolation_level=None)) as looked_at:
            try:
                looked_at.execute("INSERT INTO message_index (message_index) VALUES ('integrity-check')")
            except UNREADABLE as error:
                return str(error) or "out of memory"
    return None


def _fill(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    target.execute("BEGIN")
    for table in _TABLES:
        rows = source.execute(f"SELECT * FROM {table}")
        places = ", ".join("?" * len(rows.description))
        target.execute(f"DELETE FROM {table}")
        target.executemany(f"INSERT INTO {table} VALUES ({places})", rows)
    target.execute("COMMIT")


def _finds_too_little(connection: sqlite3.Connection) -> str | None:
    """An index can be sound and wrong all the same."""
    for seq, text in _probes(connection):
        words = parse_query(text).words[:3]
        wanted = " AND ".join(map(quoted, words))
        if (
            words
            and not connection.execute(
                "SELECT 1 FROM message_index WHERE message_index MATCH ? AND rowid = ?", (wanted, seq)
            ).fetchone()
        ):
            return f"it does not find message {seq} by its words"
    return None


def _probes(connection: sqlite3.Connection) -> Iterator[tuple[int, str]]:
    """From beginning to end at even distances."""
    indexed, _ = progress(connection)
    for seq in range(0, indexed, max(1, indexed // PROBES)):
        entry = next(entries_after(connection, seq), None)
        if entry and entry.seq <= indexed:
            yield entry.seq, searched_text(entry)


def _make_empty(connection: sqlite3.Connection) -> None:
    """By way of its tables: FTS5 itself refuses to open, let alone to drop, an index that is damaged enough."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        create(fresh)
        for setting, value in _SETTINGS.items():
            fresh.execute("INSERT INTO message_index (message_index, rank) VALUES (?, ?)", (setting, value))
        for table in _TABLES:
            (definition,) = fresh.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
            connection.execute(definition.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1))
            rows = fresh.execute(f"SELECT * FROM {table}").fetchall()
            connection.execute(f"DELETE FROM {table}")
            for row in rows:
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    connection.execute("DELETE FROM index_progress")
    connection.execute("INSERT INTO index_progress (singleton, seq) VALUES (1, 0)")
