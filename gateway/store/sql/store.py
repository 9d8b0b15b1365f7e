"""`GatewayStore` in SQL, over any database."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.store.ports import Fence, StoreHealth
from gateway.store.sql.access import SqlAccess
from gateway.store.sql.database import Database
from gateway.store.sql.import_export import SqlExport, SqlImports
from gateway.store.sql.inbox import SqlInbox
from gateway.store.sql.leases import SqlLeases
from gateway.store.sql.outbox import SqlOutbox
from gateway.store.sql.reports import SqlReports
from gateway.store.sql.sessions import SqlSessions


@dataclass(frozen=True, slots=True)
class FencedStore:
    """The parts of the store that a turn writes to; each write is refused once the lease is lost."""

    sessions: SqlSessions
    inbox: SqlInbox
    outbox: SqlOutbox


class SqlStore:
    """All parts of the store over one database."""

    def __init__(self, database: Database, health: StoreHealth) -> None:
        self.database = database
        self.sessions = SqlSessions(database)
        self.inbox = SqlInbox(database)
        self.outbox = SqlOutbox(database)
        self.leases = SqlLeases(database)
        self.access = SqlAccess(database)
        self.reports = SqlReports(database)
        self.imports = SqlImports(database)
        self.export = SqlExport(database)
        self.health = health

    def fenced(self, fence: Fence) -> FencedStore:
        """Return a view whose writes raise LeaseLost once another process holds the lease."""
        return FencedStore(
            SqlSessions(self.database, fence), SqlInbox(self.database, fence), SqlOutbox(self.database, fence)
        )

    async def close(self) -> None:
        """Commit accepted writes, then close all connections. Closing twice is allowed."""
        await self.database.close()
