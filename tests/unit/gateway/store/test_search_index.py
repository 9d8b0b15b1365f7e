"""SQLite only: the full-text index follows at a distance, in small steps, and loses nothing on the way."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent.messages import Message
from agent.store import Address, Conversation
from gateway.store.sql import writes
from gateway.store.sql.batch_writer import Writer
from gateway.store.sql.indexer import STEP_MESSAGES, Indexer
from gateway.store.sqlite.connection import open_writer
from gateway.store.sqlite.search_index import advance, index_in_memory, progress
from gateway.store.sqlite.store import SqliteStore

ROOT = Path(__file__).parents[4]


async def _conversation(store: SqliteStore) -> Conversation:
    return await store.sessions.open_conversation(Address("web", "1"), person="ada")


@pytest.fixture
async def written(path: Path) -> Path:
    """A database in which much was said and nothing is indexed: the picture a crash leaves behind."""
    store = await SqliteStore.open(path)
    conversation = await _conversation(store)
    texts = [f"apple number {number}" for number in range(STEP_MESSAGES * 3)]
    await store.sessions.append(
        conversation.live_session_id, [Message(role="user", content=text) for text in texts]
    )
    crashed = path.parent / "crashed.db"
    for suffix in ("", "-wal"):
        await asyncio.to_thread(shutil.copy, f"{path}{suffix}", f"{crashed}{suffix}")
    await store.close()
    return crashed


@pytest.fixture
def plain(written: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(written, isolation_level=None)) as connection:
        assert progress(connection).indexed == 0
        yield connection


def test_a_step_is_bounded(plain: sqlite3.Connection) -> None:
    """However much there is to do, a step takes so many messages and no more."""
    assert advance(plain) == STEP_MESSAGES
    assert progress(plain) == (STEP_MESSAGES, STEP_MESSAGES * 3)


def test_a_long_message_ends_a_step(plain: sqlite3.Connection) -> None:
    """Long texts count by their length, so that no step takes long."""
    (session_id,) = plain.execute("SELECT id FROM sessions").fetchone()
    plain.execute("DELETE FROM index_progress")
    plain.execute("INSERT INTO index_progress VALUES (1, ?)", (STEP_MESSAGES * 3,))
    plain.executemany(
        "INSERT INTO messages (id, session_id, role, kind, content, created_at) VALUES (?, ?, 'tool', 'said', ?, 0)",
        [(str(number), session_id, "word " * 100_000) for number in range(3)],
    )
    assert advance(plain) == STEP_MESSAGES * 3 + 1


def test_an_interrupted_step_is_done_again(plain: sqlite3.Connection) -> None:
    """Index and progress are one transaction: a message is never half in, never in twice, never left out."""
    plain.execute("BEGIN")
    advance(plain)
    plain.execute("ROLLBACK")
    assert progress(plain).indexed == 0
    while advance(plain) < STEP_MESSAGES * 3:
        pass
    found = plain.execute("SELECT count(*) FROM message_index WHERE message_index MATCH 'apple'").fetchone()
    assert found == (STEP_MESSAGES * 3,)
    plain.execute("INSERT INTO message_index (message_index) VALUES ('integrity-check')")


def test_the_index_in_memory_is_the_one_of_the_schema(plain: sqlite3.Connection) -> None:
    """Same columns, same tokenizer: what one finds the other finds."""
    wanted = "SELECT lower(sql) FROM sqlite_schema WHERE name = 'message_index'"
    with closing(index_in_memory([])) as small:
        ((here,), (there,)) = plain.execute(wanted).fetchone(), small.execute(wanted).fetchone()
    assert here.split() and "".join(here.split()) == "".join(there.split())


async def test_a_search_after_a_crash_misses_nothing(written: Path) -> None:
    """Messages that were stored but not indexed before the crash are found after it."""
    store = await SqliteStore.open(written)
    assert len(await store.sessions.search("apples", limit=1_000)) == STEP_MESSAGES * 3
    await store.close()


async def test_a_reader_after_a_crash_misses_nothing(written: Path) -> None:
    """Also where the index cannot be brought up to date."""
    store = await SqliteStore.open(written, read_only=True)
    assert len(await store.sessions.search("apples", limit=1_000)) == STEP_MESSAGES * 3
    await store.close()


async def test_the_index_catches_up_by_itself(path: Path) -> None:
    """Without any search, soon after the last message."""
    connection = await open_writer(path)
    loop, stepped = asyncio.get_running_loop(), asyncio.Event()

    def watch(statement: str) -> None:
        if statement.startswith("UPDATE index_progress"):
            loop.call_soon_threadsafe(stepped.set)

    await connection.set_trace_callback(watch)
    writer = Writer(connection)
    indexer = Indexer(writer, lambda: connection.run(progress), advance)
    conversation = await writer.write(
        writes.open_conversation, Conversation("conv_1", Address("web", "1"), "ada", "ses_1", 0.0)
    )
    message = Message(role="user", content="x")
    await writer.write(writes.append, conversation.live_session_id, [message])
    indexer.wake()
    async with asyncio.timeout(10):
        await stepped.wait()
    await writer.close()
    assert await connection.run(progress) == (1, 1)
    await indexer.close()
    await connection.close()


async def test_searching_while_others_write(sqlite_store: SqliteStore) -> None:
    """A search sees what was acknowledged before it began, in the middle of a flood."""
    conversation = await _conversation(sqlite_store)
    done = asyncio.Event()

    async def flood() -> None:
        while not done.is_set():
            await sqlite_store.sessions.append(
                conversation.live_session_id, [Message(role="user", content="noise")]
            )

    writers = [asyncio.create_task(flood()) for _ in range(8)]
    for number in range(10):
        text = f"signal{number}"
        await sqlite_store.sessions.append(conversation.live_session_id, [Message(role="user", content=text)])
        assert [hit.message.content for hit in await sqlite_store.sessions.search(text)] == [text]
    done.set()
    await asyncio.gather(*writers)


def test_killed_in_the_middle_of_writing(path: Path) -> None:
    """After kill -9 every message that was acknowledged is there, in order, found once, in a sound database."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.endless_writer", str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout
        acknowledged = [child.stdout.readline().strip() for _ in range(300)]
        child.send_signal(signal.SIGKILL)
        acknowledged += child.stdout.read().split()

    with closing(sqlite3.connect(path)) as plain:
        assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert plain.execute("PRAGMA foreign_key_check").fetchall() == []
        stored = [text for (text,) in plain.execute("SELECT content FROM messages ORDER BY seq")]
    assert set(acknowledged) <= set(stored)
    for writer in range(8):
        own = [text for text in stored if text.startswith(f"w{writer}x")]
        assert own == [f"w{writer}x{number}" for number in range(len(own))]

    async def find_all() -> list[int]:
        store = await SqliteStore.open(path)
        counts = [len(await store.sessions.search(text)) for text in acknowledged[-20:]]
        await store.close()
        return counts

    assert asyncio.run(find_all()) == [1] * 20
