"""The store of the gateway: `open_store` opens it, `ports.py` lists its parts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.errors import StoreError
from gateway.config.loader import LoadedConfig
from gateway.store.ports import GatewayStore
from gateway.store.sql.store import SqlStore
from gateway.store.sqlite.store import SqliteStore

__all__ = ["open_empty_store", "open_store"]


@asynccontextmanager
async def open_store(loaded: LoadedConfig, *, read_only: bool = False) -> AsyncIterator[GatewayStore]:
    """Open the store that the configuration names, and close it at the end.

    A store opened read-only can be used while a gateway runs; it is neither created nor migrated.
    """
    async with _closing(await _open(loaded, read_only=read_only)) as store:
        yield store


async def _open(loaded: LoadedConfig, *, read_only: bool) -> SqlStore:
    if not loaded.database_url:
        return await SqliteStore.open(loaded.database, read_only=read_only)
    try:
        from gateway.store.postgres.store import PostgresStore  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise StoreError("PostgreSQL needs `pip install 'hermes-gateway[postgres]'`.") from error
    return await PostgresStore.open(loaded.database_url, read_only=read_only)


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
