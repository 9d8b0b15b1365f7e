# ruff: noqa: S608 - only names of our own tables and columns are put into the SQL; values are always bound
"""Copies a whole store from one database to another, and compares every row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agent.errors import StoreError
from gateway.progress import report
from gateway.store.sql.database import Connection, Database, marks
from gateway.store.sql.rows import Row

_BATCH = 200

TABLES: dict[str, tuple[str, ...]] = {
    "conversations": ("seq",),
    "sessions": ("seq",),
    "messages": ("seq",),
    "session_context": ("session_id", "position"),
    "compactions": ("seq",),
    "model_calls": ("seq",),
    "facts": ("seq",),
    "conversation_state": ("conversation_id", "key"),
    "people": ("platform", "user_id"),
    "pairing_requests": ("seq",),
    "pairing_failures": ("seq",),
    "inbox": ("seq",),
    "bots": ("platform",),
    "outbox": ("seq",),
    "leases": ("conversation_id",),
    "spending": ("day", "spender", "model"),
    "model_windows": ("model",),
    "sign_outs": ("digest",),
}
"""The tables with their keys; a table comes after those it refers to. The search index is built again."""


async def copy_store(source: Database, target: Database) -> dict[str, int]:
    """Copy all rows in one transaction, which is undone if a row differs. Returns the number of rows by table."""
    return await target.write(_copy, source, target, fence=None)


def _copy(connection: Connection, source: Database, target: Database) -> dict[str, int]:
    if any(connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in TABLES):
        raise StoreError("The new database already contains a store; name an empty one.")
    with source.snapshot() as original:
        totals = {table: _count(original, table) for table in TABLES}
        rows = sum(totals.values())
        done = 0
        for table in TABLES:
            for batch in _batches(original, table):
                _insert(connection, table, batch)
                done += len(batch)
                report("Copying the store", done, rows)
        target.restart_numbers(connection, [table for table, key in TABLES.items() if key == ("seq",)])
        done = 0
        for table in TABLES:
            for batch in _batches(original, table):
                _compare(connection, table, batch)
                done += len(batch)
                report("Comparing the copy", done, rows)
            if _count(connection, table) != totals[table]:
                raise StoreError(f"The copy of `{table}` has another number of rows; nothing was copied.")
    return totals


def _count(connection: Connection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def _columns(connection: Connection, table: str) -> list[str]:
    """Return the names of the columns, the key first."""
    described = connection.execute(f"SELECT * FROM {table} LIMIT 0").description
    key = TABLES[table]
    return [*key, *sorted(column[0] for column in described if column[0] not in key)]


def _batches(connection: Connection, table: str) -> Iterator[list[Row]]:
    """Yield all rows in the order of their key."""
    key, columns = ", ".join(TABLES[table]), ", ".join(_columns(connection, table))
    after, values = "", ()
    while rows := connection.execute(
        f"SELECT {columns} FROM {table} {after} ORDER BY {key} LIMIT ?", (*values, _BATCH)
    ).fetchall():
        yield [tuple(row) for row in rows]
        values = rows[-1][: len(TABLES[table])]
        after = f"WHERE ({key}) > ({marks(values)})"


def _insert(connection: Connection, table: str, rows: Sequence[Row]) -> None:
    columns = _columns(connection, table)
    connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks(columns)})", rows)


def _compare(connection: Connection, table: str, rows: Sequence[Row]) -> None:
    """Raise StoreError if a row is missing or differs."""
    key = TABLES[table]
    keys = [row[: len(key)] for row in rows]
    wanted = ", ".join(f"({marks(key)})" for _ in keys)
    values: list[Any] = [value for each in keys for value in each]
    found = connection.execute(
        f"SELECT {', '.join(_columns(connection, table))} FROM {table} WHERE ({', '.join(key)}) IN (VALUES {wanted})",
        values,
    )
    stored = {tuple(row) for row in found}
    for row in rows:
        if row not in stored:
            raise StoreError(
                f"A row of `{table}` differs in the copy: {row[: len(key)]}; nothing was copied."
            )
