"""The PostgreSQL database of the store: a pool of connections, used by one thread that writes and some that read."""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any, Concatenate, TypeVar

import psycopg
import structlog
from psycopg_pool import ConnectionPool

from agent.errors import StoreError, StoreReadOnly
from agent.store import SearchHit
from gateway.store.ports import Fence
from gateway.store.postgres.connection import (
    CONNECT_TIMEOUT_SECONDS,
    PostgresConnection,
    configure,
    connect,
    translated,
)
from gateway.store.postgres.migrate import check_current, load_migrations, migrate
from gateway.store.postgres.search import advance, progress, search
from gateway.store.sql.batch_writer import Operation, Outcome, Writer, commit_together
from gateway.store.sql.database import Scope
from gateway.store.sql.indexer import Indexer, Progress
from gateway.store.sql.leases import fenced

log = structlog.get_logger(__name__)
T = TypeVar("T")

READERS = 4

_GATEWAY_LOCK = 4_875_201_912
"""The advisory lock of the gateway."""

_IDLE_SECONDS = 10.0
"""A connection that was idle for longer is tried before it is used: the network may have dropped it in silence."""


class Database:
    """Runs functions of a connection on threads. Made by `open`.

    One thread writes, so that the writes of this process keep their order and share commits.
    """

    def __init__(self, url: str, pool: ConnectionPool[Any], *, read_only: bool) -> None:
        self.url = url
        self._pool = pool
        self._reading = ThreadPoolExecutor(READERS, "store-reader")
        self._writing = ThreadPoolExecutor(1, "store-writer")
        self._closed = False
        self._alone: psycopg.Connection[Any] | None = None
        self._writer = None if read_only else Writer(self)
        self.indexer = Indexer(self._writer, self._index_progress, advance) if self._writer else None

    @classmethod
    async def open(cls, url: str, *, read_only: bool = False) -> Database:
        """Open the database; unless it is opened read-only, migrate it first."""
        pool = await asyncio.to_thread(_open_pool, url, read_only=read_only)
        log.debug("store.opened", read_only=read_only)
        return cls(url, pool, read_only=read_only)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self.indexer:
            await self.indexer.close()
        if self._writer:
            await self._writer.close()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._reading.shutdown()
        self._writing.shutdown()
        self._pool.close()
        if self._alone:
            self._alone.close()

    async def read(self, work: Callable[Concatenate[Any, ...], T], *arguments: Any) -> T:
        if self._closed:
            raise StoreError("The store is closed.")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reading, self._run, work, *arguments)

    def _run(self, work: Callable[Concatenate[Any, ...], T], *arguments: Any) -> T:
        with self._connection() as connection:
            return work(connection, *arguments)

    @contextmanager
    def _connection(self) -> Iterator[PostgresConnection]:
        with translated(), self._pool.connection() as raw:
            try:
                yield PostgresConnection(raw)
            finally:
                raw.last_used = time.monotonic()

    async def write(
        self,
        work: Callable[Concatenate[Any, ...], T],
        *arguments: Any,
        fence: Fence | None,
        durable: bool = True,
    ) -> T:
        if self._writer is None:
            raise StoreReadOnly("The store was opened for reading only.")
        if fence is None:
            return await self._writer.write(work, *arguments, durable=durable)
        return await self._writer.write(fenced, fence, work, *arguments, durable=durable)

    def submit_batch(
        self, operations: Sequence[Operation], *, durable: bool
    ) -> asyncio.Future[list[Outcome]]:
        begin = "BEGIN" if durable else "BEGIN; SET LOCAL synchronous_commit = off"
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._writing, self._commit, operations, begin)

    def _commit(self, operations: Sequence[Operation], begin: str) -> list[Outcome]:
        with self._connection() as connection:
            return commit_together(connection, operations, begin=begin)

    @contextmanager
    def snapshot(self) -> Iterator[PostgresConnection]:
        with closing(connect(self.url)) as raw:
            connection = PostgresConnection(raw)
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield connection

    async def hold_alone(self) -> None:
        """Refuse to go on if another gateway uses the database, and keep others out until this store is closed."""
        await asyncio.to_thread(self._hold_alone)

    def _hold_alone(self) -> None:
        if self._alone is None:
            self._alone = connect(self.url)
        held = self._alone.execute("SELECT pg_try_advisory_lock(%s)", (_GATEWAY_LOCK,)).fetchone()
        if not held[0]:
            raise StoreError("Another Hermes uses this database; stop it first.")

    def size(self, connection: PostgresConnection) -> int:
        return int(connection.execute("SELECT pg_database_size(current_database())").fetchone()[0])

    def restart_numbers(self, connection: PostgresConnection, tables: Sequence[str]) -> None:
        for table in tables:
            sequence = f"pg_get_serial_sequence('{table}', 'seq')"
            connection.execute(
                f"SELECT setval({sequence}, coalesce(max(seq), 1), max(seq) IS NOT NULL) FROM {table}"  # noqa: S608
            )

    async def search(
        self, text: str, scope: Scope, limit: int, *, platform: str | None = None
    ) -> list[SearchHit]:
        if self.indexer:
            await self.indexer.catch_up()
        return await self.read(search, text, scope, limit, platform)

    def index_soon(self) -> None:
        if self.indexer:
            self.indexer.wake()

    async def _index_progress(self) -> Progress:
        return await self.read(progress)


def _open_pool(url: str, *, read_only: bool) -> ConnectionPool[Any]:
    with closing(connect(url)) as raw:  # a pool would only say that it timed out
        (check_current if read_only else migrate)(PostgresConnection(raw), load_migrations())
    pool = ConnectionPool(
        url,
        min_size=1,
        max_size=READERS + 1,
        kwargs={"autocommit": True, "connect_timeout": CONNECT_TIMEOUT_SECONDS},
        configure=configure,
        check=_check,
        timeout=CONNECT_TIMEOUT_SECONDS,
        open=False,
    )
    pool.open()
    return pool


def _check(raw: psycopg.Connection[Any]) -> None:
    """Refuse a dead connection, so that the pool gives another one. An idle one has nothing to say unless it is cut."""
    waiting = select.poll()
    waiting.register(raw.fileno(), select.POLLIN)
    if waiting.poll(0) or time.monotonic() - getattr(raw, "last_used", 0.0) > _IDLE_SECONDS:
        ConnectionPool.check_connection(raw)
