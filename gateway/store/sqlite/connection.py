"""Connections to the database file, each on its own thread."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import aiosqlite

from agent.errors import StoreError
from gateway.store.errors import translated
from gateway.store.sql.batch_writer import Operation, Outcome, commit_together
from gateway.store.sqlite.file_swap import is_unfinished
from gateway.store.sqlite.migrate import check_current, check_not_newer, load_migrations, migrate

T = TypeVar("T")

BUSY_TIMEOUT_SECONDS = 5.0

WAL_LIMIT_BYTES = 8_000_000
"""The size to which the write-ahead log shrinks again after a long read, such as a backup."""

_PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    "PRAGMA synchronous = FULL",
    # Without this, INSERT OR REPLACE deletes rows without firing the triggers that forbid it.
    "PRAGMA recursive_triggers = ON",
    "PRAGMA temp_store = MEMORY",
)


class ThreadedConnection(aiosqlite.Connection):
    """An aiosqlite connection that runs a whole function on its thread in one hop.

    aiosqlite offers one hop per statement, and the hop is the expensive part. This class is the only one that uses
    private parts of aiosqlite: `_thread`, the thread; `_tx`, the queue of (future, function) that the thread works
    through in order; `_connection` and `_conn`, the sqlite3 connection. `test_connection.py` fails when a
    new aiosqlite changes one of them.
    """

    running = 0
    """How many functions are running or queued."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connect, iter_chunk_size=64)
        # A process that fails to close its store must still be able to end. Committed transactions are safe.
        self._thread.daemon = True

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work(connection, *arguments)` on the thread of the connection."""
        self.running += 1
        try:
            return await self.submit(work, *arguments)
        finally:
            self.running -= 1

    def submit(self, work: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Queue `work(connection, *arguments)`; it is queued when this returns."""
        if self._connection is None:
            raise StoreError("The store is closed.")
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._tx.put_nowait((done, partial(work, self._conn, *arguments)))
        return done

    def submit_batch(
        self, operations: Sequence[Operation], *, durable: bool
    ) -> asyncio.Future[list[Outcome]]:
        return self.submit(commit_together if durable else commit_without_sync, operations)

    async def join(self) -> None:
        """Wait until the thread has ended."""
        await asyncio.to_thread(self._thread.join)


def commit_without_sync(connection: sqlite3.Connection, operations: Sequence[Operation]) -> list[Outcome]:
    """Commit without waiting for the disk; the next commit does that."""
    connection.execute("PRAGMA synchronous = NORMAL")
    try:
        return commit_together(connection, operations)
    finally:
        connection.execute("PRAGMA synchronous = FULL")


async def open_writer(path: Path) -> ThreadedConnection:
    """Open the connection for writing; creates and migrates the database if needed."""
    return await _open(lambda: connect_writer(path))


async def open_reader(path: Path) -> ThreadedConnection:
    """Open a read-only connection, which does not wait for writers."""
    return await _open(lambda: connect_reader(path))


async def _open(connect: Callable[[], sqlite3.Connection]) -> ThreadedConnection:
    connection = ThreadedConnection(connect)
    try:
        with translated():
            await connection
    except StoreError:
        await connection.join()  # the thread reports its end to this event loop
        raise
    return connection


def connect_writer(path: Path) -> sqlite3.Connection:
    """Connect for writing on the calling thread; creates and migrates the database if needed."""

    def prepare(connection: sqlite3.Connection) -> None:
        # Before the first write: the file may belong to another program or to a newer Hermes.
        check_not_newer(connection, load_migrations())
        path.chmod(0o600)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
        migrate(connection, load_migrations())

    refuse_unfinished_restore(path)
    _create_private_file(path)
    return _connect(f"file:{quote(str(path))}?mode=rw", prepare)


def connect_reader(path: Path) -> sqlite3.Connection:
    """Connect read-only on the calling thread."""

    def prepare(connection: sqlite3.Connection) -> None:
        check_current(connection, load_migrations())

    refuse_unfinished_restore(path)
    if not path.exists():
        raise StoreError(f"There is no database at {path} yet; start `hermes run` once.")
    return _connect(f"file:{quote(str(path))}?mode=ro", prepare)


def _connect(uri: str, prepare: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
    """Connect in autocommit mode: every transaction is explicit."""
    with ExitStack() as on_error:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_SECONDS)
        on_error.callback(connection.close)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        prepare(connection)
        on_error.pop_all()
    return connection


def refuse_unfinished_restore(path: Path) -> None:
    """Raise StoreError after an interrupted restore, which the process that holds the state directory finishes."""
    if is_unfinished(path):
        raise StoreError("A restore of this database was interrupted; start `hermes run` to finish it.")


def _create_private_file(path: Path) -> None:
    """Create the file for its owner only. SQLite gives its side files the same mode."""
    for directory in reversed(path.parents):
        if not directory.is_dir():
            directory.mkdir(mode=0o700, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
