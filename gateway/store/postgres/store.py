# ruff: noqa: S608 - only names of our own tables are put into the SQL; values are always bound
"""`GatewayStore` in PostgreSQL."""

from __future__ import annotations

import asyncio

from gateway.progress import report
from gateway.store.ports import Diagnosis
from gateway.store.postgres.connection import PostgresConnection
from gateway.store.postgres.database import Database
from gateway.store.postgres.search import advance
from gateway.store.sql.database import Connection
from gateway.store.sql.leases import SqlLeases
from gateway.store.sql.reports import parked
from gateway.store.sql.store import SqlStore


class PostgresHealth:
    """Checks of the database. PostgreSQL itself reports damage of its files, with `StoreCorrupt`."""

    damage = ""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def check_writable(self) -> None:
        await self._database.write(_write_nothing, fence=None, durable=False)

    async def check_integrity(self) -> None:
        await self._database.read(_missing)

    async def monitor(self) -> None:
        await asyncio.Event().wait()

    async def diagnose(self) -> Diagnosis:
        missing = await self._database.read(_missing)
        damage = f"{missing} messages are missing from it" if missing else None
        return Diagnosis(damage, await self._database.read(parked), log_bytes=0)

    async def rebuild_index(self) -> int:
        await self._database.write(_queue_all, fence=None)
        await self.finish_index()
        return await self._database.read(_count, "message_index")

    async def finish_index(self) -> None:
        total = await self._database.read(_count, "index_queue")
        while left := await self._database.read(_count, "index_queue"):
            report("Building the search index", total - left, total)
            await self._database.write(advance, fence=None, durable=False)
        report("Building the search index", 1, 1)


def _write_nothing(connection: Connection) -> None:
    """Take a transaction id, which needs a server that writes."""
    connection.execute("SELECT pg_current_xact_id()")


def _missing(connection: Connection) -> int:
    """Return how many messages are neither in the search index nor queued for it."""
    row = connection.execute(
        """
        SELECT count(*) FROM messages WHERE kind = 'said'
            AND NOT EXISTS (SELECT 1 FROM message_index WHERE message_index.seq = messages.seq)
            AND NOT EXISTS (SELECT 1 FROM index_queue WHERE index_queue.seq = messages.seq)
        """
    ).fetchone()
    return int(row[0])


def _queue_all(connection: Connection) -> None:
    connection.execute("TRUNCATE message_index, index_queue")
    connection.execute("INSERT INTO index_queue (seq) SELECT seq FROM messages WHERE kind = 'said'")


def _count(connection: PostgresConnection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


class PostgresLeases(SqlLeases):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._postgres = database

    async def expire_all(self) -> None:
        """Expire every lease, if no other gateway uses the database."""
        await self._postgres.hold_alone()
        await super().expire_all()


class PostgresStore(SqlStore):
    database: Database
    health: PostgresHealth

    def __init__(self, database: Database) -> None:
        super().__init__(database, PostgresHealth(database))
        self.leases = PostgresLeases(database)

    @classmethod
    async def open(cls, url: str, *, read_only: bool = False) -> PostgresStore:
        """Open the database; unless it is opened read-only, migrate it first."""
        return cls(await Database.open(url, read_only=read_only))
