"""People as both stores remember them, and a clock the test turns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.access import Pairing
from gateway.store.access import Access
from gateway.store.sqlite.store import SqliteStore
from tests.support.stores import open_at


@dataclass
class Clock:
    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def pass_minutes(self, minutes: float) -> None:
        self.now += minutes * 60


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state.db"


@pytest.fixture
async def people(database: Path) -> AsyncIterator[Access]:
    store = await SqliteStore.open(database)
    yield store.access
    await store.close()


@pytest.fixture
def pairing(people: Access, clock: Clock) -> Pairing:
    return Pairing(people, clock=clock)


@pytest.fixture
async def two_processes(store_location: Path | str, clock: Clock) -> AsyncIterator[tuple[Pairing, Pairing]]:
    """The gateway's and the command line's, each with its own connections to the same database."""
    gateway, command_line = await open_at(store_location), await open_at(store_location)
    yield Pairing(gateway.access, clock=clock), Pairing(command_line.access, clock=clock)
    await command_line.close()
    await gateway.close()
