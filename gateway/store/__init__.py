"""The store of the gateway: `open_store` opens it, `ports.py` lists its parts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.errors import StoreError
from gateway.config.loader import LoadedConfig
from gateway.store.ports import GatewayStore
from gateway.store.sql.copy_store import copy_store
from gateway.store.sql.store import SqlStore
from gateway.store.sqlite.store import SqliteStore

__all__ = ["copy_store_to", "open_empty_store", "open_store"]


@asynccontextmanager
async def open_store(loaded: LoadedConfig, *, read_only: bool = False) -> AsyncIterator[GatewayStore]:
    """Open the store that the configuration names, and close it at the end.

    A store opened read-only can be used while a gateway runs; it is neither created nor migrated.
    """
    async with _closing(await _open(loaded, read_only=read_only)) as store:
        yield store


async def _open(loaded: LoadedConfig, *, read_only: bool) -> SqlStore:
    return await _open_at(loaded.database_url or loaded.database, read_only=read_only)


async def _open_at(location: Path | str, *, read_only: bool = False) -> SqlStore:
    """Open the store in a SQLite file or, for a URL, in PostgreSQL."""
    if isinstance(location, Path):
        return await SqliteStore.open(location, read_only=read_only)
    try:
        from gateway.store.postgres.store import PostgresStore  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise StoreError("PostgreSQL needs `pip install 'hermes-gateway[postgres]'`.") from error
    return await PostgresStore.open(location, read_only=read_only)


async def copy_store_to(loaded: LoadedConfig, location: Path | str) -> dict[str, int]:
    """Copy the store to an empty database and build its search index. Returns the number of rows by table."""
    async with (
        _closing(await _open(loaded, read_only=True)) as source,
        _closing(await _open_at(location)) as target,
    ):
        copied = await copy_store(source.database, target.database)
        await target.health.finish_index()
        return copied


@asynccontextmanager
async def open_empty_store() -> AsyncIterator[GatewayStore]:
    """Open a store without content that is deleted at the end, for commands before the first start."""
    with TemporaryDirectory() as folder:
        async with _closing(await SqliteStore.open(Path(folder) / "state.db")) as store:
            yield store


@asynccontextmanager
async def _closing(store: SqlStore) -> AsyncIterator[SqlStore]:
    try:
        yield store
    finally:
        await store.close()
