"""Brings a database to the schema in `migrations/`: forward only, each in one transaction with its record."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from agent.errors import NewerSchema, StoreError
from gateway.progress import report

log = structlog.get_logger(__name__)

MIGRATIONS = Path(__file__).resolve().parents[3] / "migrations"
"""Beside `gateway/`, in the source tree and in an installed wheel alike."""

_FILE_NAME = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str


def load_migrations(directory: Path = MIGRATIONS) -> list[Migration]:
    """All of them in order. A gap or a double number is a mistake in the release, not in the database."""
    found = [
        Migration(int(match[1]), match[2], path.read_text(encoding="utf-8"))
        for path in sorted(directory.glob("*.sql"))
        if (match := _FILE_NAME.fullmatch(path.name))
    ]
    if not found or [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise StoreError(f"The migrations in {directory} are not complete; install Hermes again.")
    return found


def migrate(connection: sqlite3.Connection, migrations: list[Migration]) -> None:
    """Applies what is missing. The connection must be in autocommit mode."""
    check_not_newer(connection, migrations)
    has_content = schema_version(connection) > 0
    for migration in migrations:
        if migration.version > schema_version(connection):
            if has_content:  # a new one is made at once
                report("Bringing the database up to date", migration.version - 1, len(migrations))
            _apply(connection, migration)
    report("Bringing the database up to date", len(migrations), len(migrations))


def check_current(connection: sqlite3.Connection, migrations: list[Migration]) -> None:
    """For a reader, which may not migrate."""
    check_not_newer(connection, migrations)
    if schema_version(connection) < len(migrations):
        raise StoreError(
            "The database is from an older Hermes; start `hermes run` once to bring it up to date."
        )


def check_not_newer(connection: sqlite3.Connection, migrations: list[Migration]) -> None:
    version = schema_version(connection)
    if version > len(migrations):
        raise NewerSchema(f"Its schema is {version}, this Hermes knows {len(migrations)}.")


def schema_version(connection: sqlite3.Connection) -> int:
    """0 for an empty database. Somebody else's database is refused before anything is written to it."""
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
    # A rebuilt table would trip over foreign keys half-way; they are checked as a whole before the commit.
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if migration.version > schema_version(connection):  # another process may just have done it
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
    """`executescript` would commit in between, so the script is cut here; triggers stay whole."""
    statement = ""
    for piece in re.split(r"(?<=;)", script):
        statement += piece
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement
