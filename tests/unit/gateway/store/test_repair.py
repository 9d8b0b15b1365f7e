"""SQLite only: a search index that differs from the messages is detected and rebuilt."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent.messages import Message
from agent.store import Address
from agent.untrusted import wrap_untrusted
from gateway.store.sql.indexer import STEP_MESSAGES
from gateway.store.sqlite.health import diagnose, repair_index
from gateway.store.sqlite.search_index import index_damage, rebuild_index
from gateway.store.sqlite.store import SqliteStore
from tests.support.index_damage import DAMAGE

MESSAGES = STEP_MESSAGES * 3


def text_of(number: int) -> str:
    """Return a text with many unique words."""
    return f"apple n{number} pears " + " ".join(f"zebra{number}{letter}" for letter in "abcdefghij")


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with messages, all of them in the index."""
    path = tmp_path_factory.mktemp("indexed") / "state.db"

    async def fill() -> None:
        store = await SqliteStore.open(path)
        conversation = await store.sessions.open_conversation(Address("web", "1"), person="ada")
        said = [Message(role="user", content=text_of(number)) for number in range(MESSAGES)]
        await store.sessions.append(conversation.live_session_id, said)
        odd = ["", "...", "the", "日本語のテキスト", "e\u0301te\u0301", "\x00 zero", "ab" * 40_000]
        await store.sessions.append(
            conversation.live_session_id, [Message(role="tool", content=text) for text in odd]
        )
        await store.sessions.search("apple")
        await store.close()

    asyncio.run(fill())
    return path


@pytest.fixture
def database(indexed: Path, path: Path) -> Path:
    path.parent.mkdir()
    return Path(shutil.copy(indexed, path))


@pytest.fixture
def plain(database: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        yield connection


def _found(database: Path, words: str) -> int:
    async def search() -> int:
        store = await SqliteStore.open(database)
        try:
            return len(await store.sessions.search(words, limit=MESSAGES * 2))
        finally:
            await store.close()

    return asyncio.run(search())


def test_a_good_index_is_left_in_peace(database: Path) -> None:
    """The check finds no error in any messages, and needs read access only."""
    assert diagnose(database).index_damage is None


async def test_marks_around_others_words_are_no_damage(path: Path) -> None:
    """They are not in the index, so no message is looked up by them."""
    path.parent.mkdir()
    store = await SqliteStore.open(path)
    conversation = await store.sessions.open_conversation(Address("web", "1"), person="ada")
    said = [Message(role="tool", content=wrap_untrusted(f"apple {number}")) for number in range(5)]
    await store.sessions.append(conversation.live_session_id, said)
    assert len(await store.sessions.search("apple")) == 5
    await store.close()
    assert (await asyncio.to_thread(diagnose, path)).index_damage is None


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_found_and_repaired(database: Path, plain: sqlite3.Connection, what: str) -> None:
    """Afterwards every message is found again, in an index like the one that the migration makes."""
    fresh = _shape(plain)
    plain.execute(DAMAGE[what])
    assert diagnose(database).index_damage
    assert repair_index(database) == MESSAGES + 7
    assert diagnose(database).index_damage is None
    assert _shape(plain) == fresh
    assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert _found(database, "apples") == MESSAGES
    assert _found(database, "n17") == 1


def _shape(connection: sqlite3.Connection) -> list[object]:
    schema = connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
    settings = []
    if ("message_index_config",) in connection.execute("SELECT name FROM sqlite_schema"):
        settings = connection.execute("SELECT * FROM message_index_config ORDER BY k").fetchall()
    return [schema, settings]


def test_an_index_that_is_behind_is_no_damage(plain: sqlite3.Connection) -> None:
    """It always is, a little."""
    (session_id,) = plain.execute("SELECT id FROM sessions").fetchone()
    columns = "id, session_id, role, kind, content, created_at"
    plain.execute(f"INSERT INTO messages ({columns}) VALUES ('m', ?, 'user', 'said', 'x', 0)", (session_id,))
    assert index_damage(plain) is None


def test_a_repair_lets_others_write_in_between(database: Path, plain: sqlite3.Connection) -> None:
    """Each step is one transaction, so no writer waits longer than one step."""
    plain.execute(DAMAGE["no structure"])
    commits: list[str] = []
    plain.set_trace_callback(lambda sql: sql == "COMMIT" and commits.append(sql))
    rebuild_index(plain)
    assert len(commits) >= 1 + MESSAGES // STEP_MESSAGES


async def test_repaired_beside_a_running_store(database: Path) -> None:
    """The open store finds old and new messages, and does not index them twice."""
    store = await SqliteStore.open(database)
    (conversation,) = await store.sessions.conversations()
    live = conversation.conversation.live_session_id
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute(DAMAGE["a block of noise"])
    repairing = asyncio.create_task(asyncio.to_thread(repair_index, database))
    for number in range(10):
        await store.sessions.append(live, [Message(role="user", content=f"apple while mending {number}")])
    await repairing
    assert len(await store.sessions.search("apples", limit=1_000)) == MESSAGES + 10
    await store.close()
    assert (await asyncio.to_thread(diagnose, database)).index_damage is None
