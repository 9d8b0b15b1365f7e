"""Both stores behind one fixture."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.store import Address, Conversation, SessionStore
from gateway.store import MemoryStore, SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state.db"


@pytest.fixture
async def sqlite_store(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path)
    yield store
    await store.close()


@pytest.fixture(params=["sqlite", "memory"])
async def store(request: pytest.FixtureRequest, path: Path) -> AsyncIterator[SessionStore]:
    """The contract: whatever a test finds true of one store is true of the other."""
    made: SessionStore = await SqliteStore.open(path) if request.param == "sqlite" else MemoryStore()
    yield made
    await made.close()


@pytest.fixture
async def conversation(store: SessionStore) -> Conversation:
    return await store.open_conversation(Address("web", "42"), person="ada")
