"""`GatewayStore` in a SQLite file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gateway.store.ports import Fence
from gateway.store.sqlite.access import SqliteAccess
from gateway.store.sqlite.database import Database
from gateway.store.sqlite.export import SqliteExport
from gateway.store.sqlite.health import SqliteHealth
from gateway.store.sqlite.imports import SqliteImports
from gateway.store.sqlite.inbox import SqliteInbox
from gateway.store.sqlite.leases import SqliteLeases
from gateway.store.sqlite.outbox import SqliteOutbox
from gateway.store.sqlite.reports import SqliteReports
from gateway.store.sqlite.sessions import SqliteSessions


@dataclass(frozen=True, slots=True)
class FencedStore:
    """The parts of the store that a turn writes to; each write is refused once the lease is lost."""

    sessions: SqliteSessions
    inbox: SqliteInbox
    outbox: SqliteOutbox


class SqliteStore:
    """All parts of the store over one database. Made by `open`."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.sessions = SqliteSessions(database)
        self.inbox = SqliteInbox(database)
        self.outbox = SqliteOutbox(database)
        self.leases = SqliteLeases(database)
        self.access = SqliteAccess(database)
        self.reports = SqliteReports(database)
        self.imports = SqliteImports(database)
        self.export = SqliteExport(database)
        self.health = SqliteHealth(database)

    @classmethod
    async def open(cls, path: Path, *, read_only: bool = False) -> SqliteStore:
        """Open the database; unless it is opened read-only, create and migrate it first."""
        return cls(await Database.open(path, read_only=read_only))

    def fenced(self, fence: Fence) -> FencedStore:
        """Return a view whose writes raise LeaseLost once another process holds the lease."""
        return FencedStore(
            SqliteSessions(self.database, fence),
            SqliteInbox(self.database, fence),
            SqliteOutbox(self.database, fence),
        )

    async def close(self) -> None:
        """Commit accepted writes, then close all connections. Closing twice is allowed."""
        await self.database.close()
