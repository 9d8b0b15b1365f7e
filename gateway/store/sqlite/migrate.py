"""Migrates a database to the schema in `migrations/sqlite`: forward only, one transaction per migration."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import structlog

from agent.errors import StoreError
from gateway.progress import report
from gateway.store.sql.migrations import MIGRATIONS, Migration, read_migrations, refuse_newer, refuse_older

log = structlog.get_logger(__name__)


def load_migrations(directory: Path = MIGRATIONS / "sqlite") -> list[Migration]:
    return read_migrations(directory)


def migrate(connection: sqlite3.Connection, migrations: list[Migration]) -> None:
    """Apply the migrations that are missing. The connection must be in autocommit mode."""
    check_not_newer(connection, migrations)
    has_content = schema_version(connection) > 0
    for migration in migrations:
        if migration.version > schema_version(connection):
            if has_content:  # a new database takes no time
                report("Migrating the database", migration.version - 1, len(migrations))
            _apply(connection, migration)
    report("Migrating the database", len(migrations), len(migrations))


def check_current(connection: sqlite3.Connection, migrations: list[Migration]) -> None:
    """Refuse a database that is not up to date, for readers, which cannot migrate."""
    check_not_newer(connection, migrations)
    refuse_older(schema_version(connection), len(migrations))


def check_not_newer(connection: sqlite3.Connection, migrations: list[Migration]) -> None:
    refuse_newer(schema_version(connection), len(migrations))


def schema_version(connection: sqlite3.Connection) -> int:
    """Return the number of the last migration; 0 for an empty database. Raises StoreError for the database of another
    program."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if "schema_migrations" in tables:
        (version,) = connection.execute("SELECT coalesce(max(version), 0) FROM schema_migrations").fetchone()
        return int(version)
    if tables:
        raise StoreError(
            "The file is a database of another program; set `storage.path` to a file of its own."
        )
    return 0


def _apply(connection: sqlite3.Connection, migration: Migration) -> None:
    # Foreign keys are checked once before the commit: a table that is being rebuilt violates them meanwhile.
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if migration.version > schema_version(connection):  # another process may have applied it meanwhile
            for statement in _statements(migration.sql):
                connection.execute(statement)
            _record(connection, migration)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute("PRAGMA foreign_keys = ON")
    log.info("store.migrated", version=migration.version, name=migration.name)


def _record(connection: sqlite3.Connection, migration: Migration) -> None:
    dangling = connection.execute("PRAGMA foreign_key_check").fetchone()
    if dangling is not None:
        raise StoreError(
            f"Migration {migration.version} would leave a dangling reference in `{dangling[0]}`."
        )
    connection.execute(
        "INSERT INTO schema_migrations (version, name, applied_at) VALUES (?, ?, ?)",
        (migration.version, migration.name, time.time()),
    )


def _statements(script: str) -> Iterator[str]:
    """Split a script into statements and whole triggers: `executescript` would commit between them."""
    statement = ""
    for piece in re.split(r"(?<=;)", script):
        statement += piece
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement
