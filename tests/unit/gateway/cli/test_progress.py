"""Bars for long work: seen by a person, unheard of in a pipe."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent.messages import Message
from agent.store import Address
from gateway.progress import listening
from gateway.store.sqlite.health import repair_index
from gateway.store.sqlite.migrate import load_migrations, migrate
from gateway.store.sqlite.store import SqliteStore
from tests.support import warm
from tests.support.backup_harness import StateDirectory, with_texts
from tests.support.terminal import Terminal
from tests.support.warm import HERMES


class Heard(list[tuple[str, int, int]]):
    def __call__(self, what: str, done: int, total: int) -> None:
        self.append((what, done, total))

    @property
    def works(self) -> list[str]:
        """Each once, in the order in which they began."""
        return list(dict.fromkeys(what for what, _, _ in self))


@pytest.fixture
def state(private_home: Path) -> StateDirectory:
    with_texts(private_home, "first")

    async def talk() -> None:
        store = await SqliteStore.open(private_home / "state.db")
        conversation = await store.sessions.open_conversation(Address("web", "2"), person="ada")
        await store.sessions.append(
            conversation.live_session_id, [Message("user", f"word {number} " * 200) for number in range(1000)]
        )
        await store.close()

    asyncio.run(talk())
    return StateDirectory(private_home)


def test_what_is_told_meanwhile(state: StateDirectory, tmp_path: Path) -> None:
    """A backup, a restore and a new index say what they do, go forward only, and come to an end."""
    with listening(heard := Heard()):
        state.backup(tmp_path / "a.tar.gz")
    assert heard.works == ["Copying the database", "Checking the database", "Packing", "Reading the backup"]
    for work in ("Copying the database", "Packing", "Reading the backup"):
        steps = [(done, total) for what, done, total in heard if what == work]
        assert steps == sorted(steps) and steps[-1][0] == steps[-1][1] > 0
    with listening(heard := Heard()):
        state.restore(tmp_path / "a.tar.gz")
    assert {"Reading the backup", "Checking the database"} <= set(heard.works)
    with listening(heard := Heard()):
        repair_index(state.database)
    steps = [done for what, done, _ in heard if what == "Building the search index"]
    assert len(steps) > 5 and steps == sorted(steps)
    assert heard[-1][1] == heard[-1][2]


def test_migrations_of_a_store_with_something_in_it(tmp_path: Path) -> None:
    """A new store is made without a word; an old one tells how many steps there are, and that it is done."""
    every = load_migrations()
    with closing(sqlite3.connect(tmp_path / "old.db", isolation_level=None)) as connection:
        migrate(connection, every[:1])
        with listening(heard := Heard()):
            migrate(connection, every)
    assert [done for _, done, _ in heard] == [*range(1, len(every)), len(every)]
    fresh = sqlite3.connect(tmp_path / "new.db", isolation_level=None)
    with closing(fresh), listening(heard := Heard()):
        migrate(fresh, every)
    assert all(done == total for _, done, total in heard)


async def test_a_person_sees_it_and_it_goes_away(state: StateDirectory, tmp_path: Path) -> None:
    """While it lasts; afterwards only the result is left on the screen."""
    seen: list[str] = []

    def note(screen: object) -> bool:
        seen.append(terminal.screen.text)
        return "and the copy was checked" in terminal.screen.text

    async with Terminal.run(
        *HERMES, "backup", str(tmp_path / "b.tar.gz"), env=os.environ, columns=100
    ) as terminal:
        await terminal.until(note)
        assert await terminal.ended() == 0
    assert any("Checking the database" in text or "Copying the database" in text for text in seen)
    assert "Checking the database" not in terminal.screen.text and "━" not in terminal.screen.text


def test_silence_in_a_pipe(state: StateDirectory, tmp_path: Path) -> None:
    """Not even an escape sequence on standard error."""
    done = warm.run([*HERMES, "backup", str(tmp_path / "c.tar.gz")])
    assert (done.returncode, done.stderr) == (0, "")
