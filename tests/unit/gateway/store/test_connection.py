"""ThreadedConnection: what it relies on inside aiosqlite, and one hop per function."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from queue import SimpleQueue

import aiosqlite
import pytest

from agent.errors import StoreError
from gateway.store.sqlite.connection import ThreadedConnection, open_writer


async def test_aiosqlite_is_built_as_the_adapter_expects() -> None:
    """A new aiosqlite that renames one of these parts fails here first."""
    plain = aiosqlite.Connection(lambda: sqlite3.connect(":memory:"), iter_chunk_size=64)
    assert isinstance(plain._thread, threading.Thread) and not plain._thread.is_alive()
    assert isinstance(plain._tx, SimpleQueue)
    assert plain._connection is None
    async with plain:
        assert plain._conn is plain._connection
        assert isinstance(plain._conn, sqlite3.Connection)
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        plain._tx.put_nowait((done, threading.get_ident))
        assert await done == plain._thread.ident
    assert plain._connection is None


async def test_functions_run_in_order_on_one_daemon_thread(path: Path) -> None:
    """Each gets the plain connection, and `submit` queues without waiting."""
    connection = await open_writer(path)
    queued = [
        connection.submit(lambda plain, number: (number, threading.current_thread()), n) for n in range(5)
    ]
    outcomes = [await each for each in queued]
    assert [number for number, _ in outcomes] == [0, 1, 2, 3, 4]
    (thread,) = {thread for _, thread in outcomes}
    assert thread.daemon
    await connection.close()
    await connection.join()
    assert not thread.is_alive()
    with pytest.raises(StoreError, match="closed"):
        connection.submit(lambda plain: None)


async def test_a_connection_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    (tmp_path / "state.db").mkdir()
    with pytest.raises(StoreError):
        await open_writer(tmp_path / "state.db")
    assert threading.active_count() <= before + 1  # the pool thread that joined it


def test_the_adapter_adds_no_other_private_parts() -> None:
    """The docstring of the class names every private part that it uses."""
    names = {name for method in vars(ThreadedConnection).values() for name in _names(method)}
    private = {name for name in names if name.startswith("_") and not name.startswith("__")}
    assert private == {"_thread", "_tx", "_connection", "_conn"}


def _names(method: object) -> tuple[str, ...]:
    code = getattr(method, "__code__", None)
    return code.co_names if code else ()
