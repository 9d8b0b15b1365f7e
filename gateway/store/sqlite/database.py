"""The SQLite database of the store: one writer that groups commits, and readers that do not wait for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Concatenate, TypeVar

import structlog

from agent.errors import StoreCorrupt, StoreReadOnly
from agent.store import SearchHit
from gateway.store.errors import translated
from gateway.store.ports import Fence
from gateway.store.sql.batch_writer import Writer
from gateway.store.sql.database import Scope
from gateway.store.sql.indexer import Indexer, Progress
from gateway.store.sql.leases import fenced
from gateway.store.sqlite.connection import ThreadedConnection, connect_reader, open_reader, open_writer
from gateway.store.sqlite.search import search
from gateway.store.sqlite.search_index import advance, progress

log = structlog.get_logger(__name__)
T = TypeVar("T")

READERS = 2
"""A long search must not keep a short query waiting."""


class Database:
    """Runs functions of a connection on the connection's thread. Made by `open`."""

    def __init__(
        self, path: Path, readers: Sequence[ThreadedConnection], writing: ThreadedConnection | None
    ) -> None:
        self.path = path
        self.damage = ""
        """The damage that a query or the last integrity check found; empty if none is known."""
        self._readers = readers
        self._writing = writing
        self._writer = Writer(writing) if writing else None
        self.indexer = Indexer(self._writer, self._index_progress, advance) if self._writer else None

    @classmethod
    async def open(cls, path: Path, *, read_only: bool = False) -> Database:
        """Open the database; unless it is opened read-only, create and migrate it first."""
        async with AsyncExitStack() as on_error:
            writing = None if read_only else await open_writer(path)
            if writing:
                on_error.push_async_callback(writing.close)
            readers = []
            for _ in range(READERS):
                readers.append(await open_reader(path))
                on_error.push_async_callback(readers[-1].close)
            on_error.pop_all()
        log.debug("store.opened", path=str(path), read_only=read_only)
        return cls(path, readers, writing)

    async def close(self) -> None:
        """Commit accepted writes, then close all connections. Closing twice is allowed."""
        if self.indexer:
            await self.indexer.close()
        if self._writer:
            await self._writer.close()
        with translated():
            for connection in self._readers:
                await connection.close()
            if self._writing:
                await self._writing.close()

    async def read(self, work: Callable[Concatenate[Any, ...], T], *arguments: Any) -> T:
        """Run `work(connection, *arguments)` on the least busy reader."""
        reader = min(self._readers, key=lambda each: each.running)
        with self._noting_damage(), translated():
            return await reader.run(work, *arguments)

    async def write(
        self,
        work: Callable[Concatenate[Any, ...], T],
        *arguments: Any,
        fence: Fence | None,
        durable: bool = True,
    ) -> T:
        if self._writer is None:
            raise StoreReadOnly("The store was opened for reading only.")
        with self._noting_damage():
            if fence is None:
                return await self._writer.write(work, *arguments, durable=durable)
            return await self._writer.write(fenced, fence, work, *arguments, durable=durable)

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        # Only calls of the database are translated: the caller's own file may fail for other reasons.
        with translated():
            connection = connect_reader(self.path)
        with closing(connection):
            connection.execute("BEGIN")
            yield connection

    def size(self, _: sqlite3.Connection) -> int:
        """Return the bytes of the database with its write-ahead log."""
        files = self.path, self.path.with_name(f"{self.path.name}-wal")
        return sum(file.stat().st_size for file in files if file.exists())

    def restart_numbers(self, connection: sqlite3.Connection, tables: Sequence[str]) -> None:
        """Do nothing: SQLite always takes the number after the highest one."""

    async def search(
        self, text: str, scope: Scope, limit: int, *, platform: str | None = None
    ) -> list[SearchHit]:
        if self.indexer:
            await self.indexer.catch_up()
        return await self.read(search, text, scope, limit, platform)

    def index_soon(self) -> None:
        if self.indexer:
            self.indexer.wake()

    @contextmanager
    def _noting_damage(self) -> Iterator[None]:
        try:
            yield
        except StoreCorrupt as error:
            self.damage = error.detail
            raise

    async def _index_progress(self) -> Progress:
        return await self.read(progress)
