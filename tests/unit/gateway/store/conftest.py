"""A SQLite store on a temporary file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.store import Address, Conversation, SessionStore
from gateway.store.sqlite.store import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state.db"


@pytest.fixture
async def sqlite_store(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path)
    yield store
    await store.close()


@pytest.fixture
async def store(sqlite_store: SqliteStore) -> SessionStore:
    """The store as the agent knows it."""
    return sqlite_store.sessions


@pytest.fixture
async def conversation(store: SessionStore) -> Conversation:
    return await store.open_conversation(Address("web", "42"), person="ada")
