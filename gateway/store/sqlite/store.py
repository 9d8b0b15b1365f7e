"""`GatewayStore` in a SQLite file."""

from __future__ import annotations

from pathlib import Path

from gateway.store.sql.store import SqlStore
from gateway.store.sqlite.database import Database
from gateway.store.sqlite.health import SqliteHealth


class SqliteStore(SqlStore):
    database: Database
    health: SqliteHealth

    def __init__(self, database: Database) -> None:
        super().__init__(database, SqliteHealth(database))

    @classmethod
    async def open(cls, path: Path, *, read_only: bool = False) -> SqliteStore:
        """Open the database; unless it is opened read-only, create and migrate it first."""
        return cls(await Database.open(path, read_only=read_only))
