"""Opens stores for tests; `close_stores` in tests/conftest.py closes those on temporary files."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from gateway.store.sql.store import SqlStore
from gateway.store.sqlite.store import SqliteStore

_open_stores: list[SqliteStore] = []


async def temporary_store() -> SqliteStore:
    """Open an empty store on a file of its own, below the state directory of the test."""
    home = Path(os.environ["HERMES_HOME"])
    folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="store-", dir=home.parent)
    store = await SqliteStore.open(Path(folder) / "state.db")
    _open_stores.append(store)
    return store


async def close_temporary_stores() -> None:
    while _open_stores:
        await _open_stores.pop().close()


async def open_at(location: Path | str, *, read_only: bool = False) -> SqlStore:
    """Open the store in an SQLite file or, for a URL, in PostgreSQL."""
    if isinstance(location, Path):
        return await SqliteStore.open(location, read_only=read_only)
    from gateway.store.postgres.store import PostgresStore

    return await PostgresStore.open(location, read_only=read_only)
