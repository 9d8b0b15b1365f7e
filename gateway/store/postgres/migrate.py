"""Migrates a PostgreSQL database to the schema in `migrations/postgres`: forward only, one transaction each."""

from __future__ import annotations

import time
from pathlib import Path

import structlog

from agent.errors import StoreError
from gateway.progress import report
from gateway.store.postgres.connection import PostgresConnection
from gateway.store.sql.migrations import MIGRATIONS, Migration, read_migrations, refuse_newer, refuse_older

log = structlog.get_logger(__name__)

_LOCK = 4_875_201_911
"""The advisory lock that a migrating process holds."""


def load_migrations(directory: Path = MIGRATIONS / "postgres") -> list[Migration]:
    return read_migrations(directory)


def migrate(connection: PostgresConnection, migrations: list[Migration]) -> None:
    """Apply the migrations that are missing. Of several processes one does it, and the others wait."""
    version = schema_version(connection)
    refuse_newer(version, len(migrations))
    has_content = version > 0
    for migration in migrations[version:]:
        if has_content:  # a new database takes no time
            report("Migrating the database", migration.version - 1, len(migrations))
        _apply(connection, migration)
    report("Migrating the database", len(migrations), len(migrations))


def check_current(connection: PostgresConnection, migrations: list[Migration]) -> None:
    version = schema_version(connection)
    refuse_newer(version, len(migrations))
    refuse_older(version, len(migrations))


def schema_version(connection: PostgresConnection) -> int:
    """Return the number of the last migration; 0 for an empty schema. Raises StoreError for one of another program."""
    rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    tables = {name for (name,) in rows}
    if "schema_migrations" in tables:
        (version,) = connection.execute("SELECT coalesce(max(version), 0) FROM schema_migrations").fetchone()
        return int(version)
    if tables:
        raise StoreError(
            "The database belongs to another program; set `storage.url` to a database of its own."
        )
    return 0


def _apply(connection: PostgresConnection, migration: Migration) -> None:
    connection.execute("BEGIN")
    try:
        connection.execute("SELECT pg_advisory_xact_lock(?)", (_LOCK,))
        if migration.version > schema_version(connection):  # another process may have applied it meanwhile
            connection.execute(migration.sql)
            connection.execute(
                "INSERT INTO schema_migrations (version, name, applied_at) VALUES (?, ?, ?)",
                (migration.version, migration.name, time.time()),
            )
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    log.info("store.migrated", version=migration.version, name=migration.name)
