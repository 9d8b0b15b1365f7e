"""A database's schema as text. `python -m tests.support.schema_dump` freezes the one of the newest migration."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from gateway.store.sql.database import Connection
from gateway.store.sqlite.migrate import load_migrations, migrate

FROZEN = Path(__file__).parent / "schemas"


def frozen(version: int) -> Path:
    return FROZEN / f"{version:04d}.sql"


def dump(connection: sqlite3.Connection) -> str:
    """Return the schema: statements, index settings and the rows that belong to it."""
    virtual = [
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL TABLE%'"
        )
    ]
    shadows = {
        f"{name}_{part}" for name in virtual for part in ("data", "idx", "content", "docsize", "config")
    }
    statements = [
        f"{sql};"
        for name, sql in connection.execute(
            "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type = 'trigger', name"
        )
        if name not in shadows
    ]
    for name in virtual:
        for key, value in connection.execute(f"SELECT k, v FROM {name}_config ORDER BY k"):
            statements.append(f"REPLACE INTO {name}_config VALUES ('{key}', {value});")
    for table, columns in (("index_progress", "singleton, seq"), ("schema_migrations", "version, name, 0.0")):
        for row in connection.execute(f"SELECT {columns} FROM {table} ORDER BY 1"):
            statements.append(f"INSERT INTO {table} VALUES {row};")
    return "\n\n".join(statements) + "\n"


def migrated(connection: sqlite3.Connection, version: int) -> str:
    """The schema after the migrations up to this one."""
    migrate(connection, load_migrations()[:version])
    return dump(connection)


Columns = dict[str, list[tuple[str, str, bool]]]
"""By table: name, type and whether NULL is allowed, in order. Without the search index, which each database has in its
own way."""

_TYPES = {"bigint": "INTEGER", "double precision": "REAL", "text": "TEXT"}


def sqlite_columns(connection: sqlite3.Connection) -> Columns:
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    return {
        table: [
            (name, kind, not (required or key))
            for _, name, kind, required, _, key in connection.execute(f"PRAGMA table_info({table})")
        ]
        for (table,) in tables.fetchall()
        if "index" not in table
    }


def postgres_columns(connection: Connection) -> Columns:
    found: Columns = {}
    rows = connection.execute(
        """
        SELECT table_name, column_name, data_type, is_nullable = 'YES' FROM information_schema.columns
        WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position
        """
    )
    for table, name, kind, is_nullable in rows:
        if "index" not in table:
            found.setdefault(table, []).append((name, _TYPES[kind], is_nullable))
    return found


if __name__ == "__main__":
    newest = len(load_migrations())
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        frozen(newest).write_text(migrated(fresh, newest), encoding="utf-8")
