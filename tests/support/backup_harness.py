"""A state directory with something in it, and what can be seen of it from outside."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.messages import Message
from agent.store import Address
from gateway.backup.create import Made, Sources, make_backup
from gateway.backup.restore import Restored, restore
from gateway.errors import BackupUnusable
from gateway.store.sqlite.store import SqliteStore


@dataclass(frozen=True)
class StateDirectory:
    home: Path

    @property
    def database(self) -> Path:
        return self.home / "state.db"

    @property
    def workspaces(self) -> Path:
        return self.home / "workspaces"

    def backup(self, target: Path, *, workspaces: bool = False, overwrite: bool = False) -> Made:
        sources = Sources(self.home, self.database, self.workspaces if workspaces else None)
        return make_backup(sources, target, overwrite=overwrite)

    def restore(self, file: Path) -> Restored:
        return restore(file, home=self.home, database=self.database, workspaces=self.workspaces)

    def texts(self) -> list[str]:
        return texts_in(self.database)

    def names(self) -> set[str]:
        """Return the names of all files except locks."""
        return {path.name for path in self.home.iterdir() if path.suffix != ".lock"}


def texts_in(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as plain:
        assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [text for (text,) in plain.execute("SELECT content FROM messages ORDER BY seq")]


async def say(store: SqliteStore, *texts: str) -> None:
    conversation = await store.sessions.open_conversation(Address("web", "1"), person="ada")
    messages = [Message(role="user", content=text) for text in texts]
    await store.sessions.append(conversation.live_session_id, messages)


def with_texts(home: Path, *texts: str) -> StateDirectory:
    """Make the state directory of a Hermes that was stopped cleanly."""

    async def talk() -> None:
        store = await SqliteStore.open(home / "state.db")
        await say(store, *texts)
        await store.close()

    asyncio.run(talk())
    return StateDirectory(home)


def unusable(state: StateDirectory, file: Path) -> str:
    """Return why the backup is refused; check that the refusal changes nothing."""
    before = contents(state.home)
    with pytest.raises(BackupUnusable) as refused:
        state.restore(file)
    assert contents(state.home) == before
    return str(refused.value)


def contents(home: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() if path.is_file() else b""
        for path in home.iterdir()
        if path.suffix != ".lock"
    }
