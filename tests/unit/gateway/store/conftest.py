"""Stores for tests: most tests run on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.store import Address, Conversation, SessionStore
from gateway.store.sql.store import SqlStore
from gateway.store.sqlite.store import SqliteStore
from tests.support.stores import open_at


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state.db"


@pytest.fixture
async def sqlite_store(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path)
    yield store
    await store.close()


@pytest.fixture
async def gateway_store(store_location: Path | str) -> AsyncIterator[SqlStore]:
    store = await open_at(store_location)
    yield store
    await store.close()


@pytest.fixture
async def store(gateway_store: SqlStore) -> SessionStore:
    """The store as the agent knows it."""
    return gateway_store.sessions


@pytest.fixture
async def conversation(store: SessionStore) -> Conversation:
    return await store.open_conversation(Address("web", "42"), person="ada")
