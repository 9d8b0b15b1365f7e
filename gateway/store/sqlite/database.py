"""The SQLite database of the store: one writer that groups commits, and readers that do not wait for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import structlog

from agent.errors import StoreCorrupt, StoreReadOnly
from gateway.store.errors import translated
from gateway.store.ports import Fence
from gateway.store.sqlite import leases
from gateway.store.sqlite.batch_writer import Writer
from gateway.store.sqlite.connection import ThreadedConnection, open_reader, open_writer
from gateway.store.sqlite.search_index import Indexer, Progress, progress

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
        self.indexer = Indexer(self._writer, self._index_progress) if self._writer else None

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

    async def read(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work(connection, *arguments)` on the least busy reader."""
        reader = min(self._readers, key=lambda each: each.running)
        with self._noting_damage(), translated():
            return await reader.run(work, *arguments)

    async def write(
        self, work: Callable[..., T], *arguments: Any, fence: Fence | None, durable: bool = True
    ) -> T:
        """Run `work(connection, *arguments)` in a transaction; with a fence, only while its lease is held.

        A write that is not durable does not wait for the disk: it survives the end of the process, but perhaps not a
        power cut.
        """
        if self._writer is None:
            raise StoreReadOnly("The store was opened for reading only.")
        with self._noting_damage():
            if fence is None:
                return await self._writer.write(work, *arguments, durable=durable)
            return await self._writer.write(_fenced, fence, work, *arguments, durable=durable)

    def index_soon(self) -> None:
        """Let the indexer know that messages were stored."""
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


def _fenced(connection: sqlite3.Connection, fence: Fence, work: Callable[..., T], *arguments: Any) -> T:
    leases.check(connection, fence)
    return work(connection, *arguments)
