# ruff: noqa: S608 - only names of our own tables and columns are put into the SQL; values are always bound
"""The full-text index of messages in FTS5: steps of the indexer, damage checks and rebuilds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.errors import SearchIndexDamaged
from agent.fts_text import indexable, parse_query, quoted
from gateway.progress import report
from gateway.store.sql.batch_writer import commit_together
from gateway.store.sql.indexer import (
    STEP_CHARACTERS,
    STEP_MESSAGES,
    Entry,
    Progress,
    conversation_token,
    entries_after,
    person_token,
    searched_text,
)

MERGE_PAGES = 16
"""How many pages a step merges, so that the number of segments stays small."""

TOKENIZER = "porter unicode61 remove_diacritics 2"


def progress(connection: sqlite3.Connection) -> Progress:
    row = connection.execute(
        "SELECT seq, coalesce((SELECT max(seq) FROM messages), 0) FROM index_progress"
    ).fetchone()
    if row is None:
        raise SearchIndexDamaged("(how far it reaches is not known)")
    return Progress(*row)


def advance(connection: sqlite3.Connection) -> int:
    """Index some messages inside the transaction of the writer; returns the seq up to which messages are indexed.

    The index and its progress are committed together, so that indexing resumes after a crash.
    """
    reached, stored = progress(connection)
    characters = 0
    for count, entry in enumerate(entries_after(connection, reached), start=1):
        add(connection, entry)
        characters += len(entry.text)
        if count == STEP_MESSAGES or characters >= STEP_CHARACTERS:
            reached = entry.seq
            break
    else:
        reached = stored
    connection.execute("UPDATE index_progress SET seq = ? WHERE seq < ?", (reached, reached))
    connection.execute("INSERT INTO message_index (message_index, rank) VALUES ('merge', ?)", (MERGE_PAGES,))
    return reached


def add(connection: sqlite3.Connection, entry: Entry) -> None:
    text = indexable(searched_text(entry))
    said, tool = (None, text) if entry.role == "tool" else (text, None)
    scope = f"{person_token(entry.person)} {conversation_token(entry.conversation_id)}"
    connection.execute(
        "INSERT INTO message_index (rowid, scope, said, tool) VALUES (?, ?, ?, ?)",
        (entry.seq, scope, said, tool),
    )


def create(connection: sqlite3.Connection) -> None:
    """Create the index as the schema defines it."""
    columns = f"scope, said, tool, content = '', tokenize = '{TOKENIZER}'"
    connection.execute(f"CREATE VIRTUAL TABLE message_index USING fts5 ({columns})")


def index_in_memory(entries: Iterable[Entry]) -> sqlite3.Connection:
    """Return a connection to a temporary index of a few messages."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create(connection)
    connection.execute("BEGIN")
    for entry in entries:
        add(connection, entry)
    connection.execute("COMMIT")
    return connection


PROBES = 50
"""How many messages a check looks up by their words."""

_TABLES = ("message_index_data", "message_index_idx", "message_index_docsize", "message_index_config")
"""The ordinary tables in which FTS5 keeps the index."""

UNREADABLE = (sqlite3.DatabaseError, MemoryError)
"""Errors of a damaged index. A damaged block can claim a length that exceeds the memory."""

_SETTINGS = {"automerge": 0, "crisismerge": 1000}
"""The settings of the index, as in its migration."""


def index_damage(connection: sqlite3.Connection) -> str | None:
    """Return the damage of the index, or None. Only reads, so that writes do not wait."""
    connection.execute("BEGIN")  # one snapshot of messages and index
    try:
        return _mismatch(connection) or _structural_damage(connection) or _lookup_failure(connection)
    except UNREADABLE as error:  # a table of the index is missing or unreadable
        return str(error) or "out of memory"
    finally:
        connection.execute("ROLLBACK")


def rebuild_index(connection: sqlite3.Connection) -> int:
    """Rebuild the index in steps between which others can write. Returns the number of messages in it."""
    commit_together(connection, [_make_empty])
    while (so_far := progress(connection)).indexed < so_far.stored:
        commit_together(connection, [advance])
        report("Building the search index", *progress(connection))
    (count,) = connection.execute("SELECT count(*) FROM message_index_docsize").fetchone()
    return int(count)


def _mismatch(connection: sqlite3.Connection) -> str | None:
    row = connection.execute("SELECT seq FROM index_progress").fetchone()
    if row is None:
        return "its progress row is missing"
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


def _structural_damage(connection: sqlite3.Connection) -> str | None:
    """Let FTS5 check a copy of the index: its check is an INSERT, for which all writes would wait."""
    with TemporaryDirectory(prefix="hermes-index-") as directory:
        copy = Path(directory) / "index.db"
        with closing(sqlite3.connect(copy, isolation_level=None)) as filled:
            filled.execute("PRAGMA journal_mode = OFF")
            create(filled)
            _fill(connection, filled)
        # A second connection, because the first has cached an empty index.
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


def _lookup_failure(connection: sqlite3.Connection) -> str | None:
    """Look some messages up by their words: an index can be intact and still wrong."""
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
    """Yield messages at even distances."""
    indexed, _ = progress(connection)
    for seq in range(0, indexed, max(1, indexed // PROBES)):
        entry = next(entries_after(connection, seq), None)
        if entry and entry.seq <= indexed:
            yield entry.seq, searched_text(entry)


def _make_empty(connection: sqlite3.Connection) -> None:
    """Empty the index through its tables: FTS5 can neither open nor drop a badly damaged index."""
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
