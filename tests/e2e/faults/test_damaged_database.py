"""A real database file with a damaged page: `/readyz` reports it, no matter which code reads the page first."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agent.errors import StoreCorrupt
from agent.messages import Message
from agent.store import Address
from gateway.store.sqlite import health
from gateway.store.sqlite.store import SqliteStore
from tests.support.hermes_process import hermes
from tests.support.metrics_harness import metrics_harness


async def test_a_query_that_meets_the_page(tmp_path: Path) -> None:
    """From then on messages are not taken as if nothing were wrong."""
    database = tmp_path / "state.db"
    session = await _filled(database)
    store = await SqliteStore.open(database)
    async with metrics_harness(tmp_path, store=store) as harness:
        assert (await harness.get("/readyz"))[0] == 200
        await asyncio.to_thread(_damage, database, "messages")
        with pytest.raises(StoreCorrupt):
            await store.sessions.history(session)
        await _told_on_readyz(harness)


async def test_a_look_at_all_of_it(tmp_path: Path) -> None:
    """Damage in unread pages is found too. A repaired file is ready again."""
    database = tmp_path / "state.db"
    await _filled(database)
    whole = await asyncio.to_thread(database.read_bytes)
    store = await SqliteStore.open(database)
    async with metrics_harness(tmp_path, store=store) as harness:
        await store.health.check_integrity()
        assert store.health.damage == ""
        await asyncio.to_thread(_damage, database, "facts")
        await store.health.check_integrity()
        await _told_on_readyz(harness)
        await asyncio.to_thread(database.write_bytes, whole)
        await store.health.check_integrity()
        assert store.health.damage == ""


async def test_a_file_that_is_repaired(tmp_path: Path) -> None:
    """The watch looks again soon, and `/readyz` is ready again; also where a query has met the damage."""
    database = tmp_path / "state.db"
    session = await _filled(database)
    whole = await asyncio.to_thread(database.read_bytes)
    store = await SqliteStore.open(database)
    async with metrics_harness(tmp_path, store=store) as harness:
        watching = asyncio.create_task(store.health.monitor(again_seconds=0.05))
        try:
            await asyncio.to_thread(_damage, database, "messages")
            with pytest.raises(StoreCorrupt):
                await store.sessions.history(session)
            await asyncio.to_thread(database.write_bytes, whole)
            async with asyncio.timeout(30):
                while (await harness.get("/readyz"))[0] != 200 or store.health.damage:
                    pass
        finally:
            watching.cancel()


async def test_a_stop_does_not_wait_for_the_look(tmp_path: Path) -> None:
    """The look uses no thread of the pool: a stop waits for those."""
    database = tmp_path / "state.db"
    await _filled(database)
    store = await SqliteStore.open(database)
    is_free = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        asyncio.get_running_loop().set_default_executor(pool)
        pool.submit(is_free.wait)
        try:
            async with asyncio.timeout(20):
                await store.health.check_integrity()
        finally:
            is_free.set()
            await store.close()


async def test_a_damaged_search_index_is_not_a_damaged_database(tmp_path: Path) -> None:
    """From SQLite 3.44 on its check looks at the search index, too; `hermes doctor --repair` builds that again."""
    database = tmp_path / "state.db"
    await _filled(database)
    store = await SqliteStore.open(database)
    await store.sessions.search("word")  # brings the index up to date
    await asyncio.to_thread(_damage_index, database)
    await store.health.check_integrity()
    assert store.health.damage == ""
    await store.close()


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (["ok"], None),
        (["malformed inverted index for FTS5 table main.message_index"], None),
        (["unable to validate the inverted index for FTS5 table main.message_index: x", "wrong"], "wrong"),
    ],
)
def test_what_newer_sqlite_says_of_the_index(found: list[str], told: str | None) -> None:
    class Newer(sqlite3.Connection):
        def execute(self, *_: Any) -> Any:
            return iter([(line,) for line in found])

    with closing(sqlite3.connect(":memory:", factory=Newer)) as connection:
        assert health.damage(connection) == told


async def test_the_gateway_looks_by_itself(tmp_path: Path) -> None:
    """At its start, in the background."""
    home = tmp_path / "home"
    await _filled(home / "state.db")
    await asyncio.to_thread(_damage, home / "state.db", "facts")
    async with hermes(home, {"logging": {"format": "json"}}) as process:
        await process.logs("store.damaged")
        async with asyncio.timeout(30):
            while True:  # What was said a moment ago is remembered for a second.
                async with aiohttp.ClientSession() as http, http.get(f"{process.url}/readyz") as response:
                    if response.status == 503:
                        break


async def _told_on_readyz(harness: Any) -> None:
    async with asyncio.timeout(30):
        while (answer := await harness.get("/readyz"))[0] == 200:  # Remembered for a second.
            pass
    status, told = answer
    assert (status, list(told["problems"])) == (503, ["store"])
    assert "damaged" in told["problems"]["store"]


async def _filled(database: Path) -> str:
    store = await SqliteStore.open(database)
    conversation = await store.sessions.open_conversation(Address("web", "desk"), person="owner")
    session = conversation.live_session_id
    for number in range(50):
        await store.sessions.append(session, [Message("user", f"{number} " + "word " * 200)])
        await store.sessions.remember("owner", f"fact {number} " + "word " * 50)
    await store.sessions.search(
        "word", person="owner"
    )  # waits for the index: it must not meet the damage later
    await store.close()
    return session


def _damage_index(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE message_index_data SET block = zeroblob(length(block)) WHERE id > 10")
        connection.commit()


def _damage(database: Path, table: str) -> None:
    """Overwrite the page where a table begins."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        query = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        (page,) = connection.execute(query, (table,)).fetchone()
    with database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
