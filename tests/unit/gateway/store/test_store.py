"""SQLite only: the file, who may read it, and what is said when it cannot be used."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent.errors import HermesError, NewerSchema, StoreCorrupt, StoreError, StoreFull, StoreReadOnly
from agent.messages import Message
from agent.store import Address, Conversation, Split
from gateway.store.errors import as_store_error
from gateway.store.sql import reads
from gateway.store.sqlite.connection import open_writer
from gateway.store.sqlite.store import SqliteStore


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _modes_within(directory: Path) -> set[int]:
    return {_mode(file) for file in directory.iterdir()}


def _open_to_all(path: Path) -> None:
    path.chmod(0o644)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _damage(path: Path) -> None:
    """The second half of the file, all but its last page."""
    half = path.stat().st_size // 2
    with path.open("r+b") as file:
        file.seek(half)
        file.write(b"\xff" * (half - 4096))


def _make_read_only(directory: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(directory)], check=True)


async def _conversation(store: SqliteStore) -> Conversation:
    return await store.sessions.open_conversation(Address("web", "1"), person="ada")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(directory)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root in a real system can mount a small file system")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


async def test_the_file_is_private(path: Path) -> None:
    """Database, side files and the directories made for them are the owner's alone, also after a careless copy."""
    store = await SqliteStore.open(path)
    await _conversation(store)
    assert _mode(path.parent) == 0o700
    assert _modes_within(path.parent) == {0o600}
    await store.close()
    _open_to_all(path)
    await (await SqliteStore.open(path)).close()
    assert _mode(path) == 0o600


async def test_a_directory_that_was_there_is_left_as_it_is(tmp_path: Path) -> None:
    """The mode of an existing directory does not change."""
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    await (await SqliteStore.open(shared / "state.db")).close()
    assert _mode(shared) == 0o755


async def test_everything_is_there_after_a_restart(path: Path) -> None:
    """Closed and opened again: conversation, history, summary, facts, state and search are the same."""
    store = await SqliteStore.open(path)
    conversation = await _conversation(store)
    (said,) = await store.sessions.append(
        conversation.live_session_id, [Message(role="user", content="the answer")]
    )
    child = await store.sessions.split(
        Split(
            conversation.live_session_id,
            "compression",
            [Message(role="user", content="s", kind="summary"), said.id],
        )
    )
    fact = await store.sessions.remember("ada", "a fact")
    await store.sessions.save_state(conversation.id, "todo", "[]")
    before = await store.sessions.history(child.id)
    await store.close()

    store = await SqliteStore.open(path)
    assert (await store.sessions.conversation(conversation.id)).live_session_id == child.id
    assert await store.sessions.history(child.id) == before
    assert await store.sessions.facts("ada") == [fact]
    assert await store.sessions.load_state(conversation.id, "todo") == "[]"
    assert [hit.message for hit in await store.sessions.search("answers")] == [said]
    await store.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE messages SET content = 'forged'",
        "UPDATE messages SET seq = seq + 1",
        "DELETE FROM messages",
    ],
)
async def test_the_database_itself_refuses_to_change_a_message(
    sqlite_store: SqliteStore, path: Path, statement: str
) -> None:
    """Not even direct SQL can rewrite a message."""
    conversation = await _conversation(sqlite_store)
    stored = await sqlite_store.sessions.append(
        conversation.live_session_id, [Message(role="user", content="truth")]
    )
    with closing(sqlite3.connect(path)) as other, pytest.raises(sqlite3.IntegrityError, match="never"):
        other.execute(statement)
    assert await sqlite_store.sessions.history(conversation.live_session_id) == stored


async def test_a_message_is_not_replaced_by_an_insert(sqlite_store: SqliteStore, path: Path) -> None:
    """INSERT OR REPLACE deletes without asking the triggers, unless a connection is told to; ours is."""
    conversation = await _conversation(sqlite_store)
    stored = await sqlite_store.sessions.append(
        conversation.live_session_id, [Message(role="user", content="truth")]
    )
    ours = await open_writer(path)
    with pytest.raises(sqlite3.IntegrityError, match="never deleted"):
        await ours.execute(
            "INSERT OR REPLACE INTO messages (seq, id, session_id, role, kind, content, created_at) "
            "SELECT seq, id, session_id, role, kind, 'forged', created_at FROM messages"
        )
    await ours.close()
    assert await sqlite_store.sessions.history(conversation.live_session_id) == stored


async def test_the_database_itself_refuses_to_change_a_pinned_prompt(
    sqlite_store: SqliteStore, path: Path
) -> None:
    """The first rendering of a session's prompt is the only one."""
    conversation = await _conversation(sqlite_store)
    await sqlite_store.sessions.pin(conversation.live_session_id, system_prompt="pinned", model="m")
    with closing(sqlite3.connect(path)) as other, pytest.raises(sqlite3.IntegrityError, match="never"):
        other.execute("UPDATE sessions SET system_prompt = 'other'")


async def test_the_live_pointer_stays_in_its_conversation(sqlite_store: SqliteStore, path: Path) -> None:
    """The schema itself refuses a conversation that points at another one's session."""
    one = await _conversation(sqlite_store)
    two = await sqlite_store.sessions.open_conversation(Address("web", "2"), person="bob")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA foreign_keys = ON")
        with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
            other.execute(
                "UPDATE conversations SET live_session_id = ? WHERE id = ?", (two.live_session_id, one.id)
            )


async def test_a_history_and_a_lineage_are_one_query_each(path: Path) -> None:
    """Context and own messages come in one statement, and so do all ancestors."""
    store = await SqliteStore.open(path)
    conversation = await _conversation(store)
    (kept,) = await store.sessions.append(
        conversation.live_session_id, [Message(role="user", content="kept")]
    )
    child = await store.sessions.split(Split(conversation.live_session_id, "compression", [kept.id]))
    await store.sessions.append(child.id, [Message(role="user", content="own")])
    await store.close()

    def statements(ask: Callable[[sqlite3.Connection, str], list[Any]]) -> tuple[int, int]:
        traced: list[str] = []
        with closing(sqlite3.connect(path)) as plain:
            plain.set_trace_callback(traced.append)
            return len(ask(plain, child.id)), len(traced)

    assert await asyncio.to_thread(statements, reads.history) == (2, 1)
    assert await asyncio.to_thread(statements, reads.lineage) == (2, 1)


async def test_a_reader_beside_a_running_store(sqlite_store: SqliteStore, path: Path) -> None:
    """It sees every commit, finds what the index has not come to yet, and can change nothing."""
    beside = await SqliteStore.open(path, read_only=True)
    conversation = await _conversation(sqlite_store)
    stored = await sqlite_store.sessions.append(
        conversation.live_session_id, [Message(role="user", content="not indexed yet")]
    )
    assert [hit.message for hit in await beside.sessions.search("indexing")] == stored
    assert await beside.sessions.history(conversation.live_session_id) == stored
    assert (await beside.sessions.conversations())[0].messages == 1
    for change in (
        beside.sessions.append(conversation.live_session_id, [Message(role="user")]),
        beside.sessions.open_conversation(Address("web", "new"), person="ada"),
        beside.sessions.remember("ada", "x"),
    ):
        with pytest.raises(StoreReadOnly):
            await change
    await beside.close()


async def test_a_reader_alone(path: Path) -> None:
    """A closed database can be read without starting Hermes; one that was never made cannot, and stays unmade."""
    with pytest.raises(StoreError, match="no database"):
        await SqliteStore.open(path, read_only=True)
    assert not await asyncio.to_thread(path.exists)
    store = await SqliteStore.open(path)
    conversation = await _conversation(store)
    await store.close()
    alone = await SqliteStore.open(path, read_only=True)
    assert await alone.sessions.conversation(conversation.id) == conversation
    await alone.close()


async def test_a_closed_store_says_so(path: Path) -> None:
    """Reading and writing after the end is an error of ours; closing twice is none."""
    store = await SqliteStore.open(path)
    await store.close()
    await store.close()
    for asking in (store.sessions.facts("ada"), store.sessions.remember("ada", "x")):
        with pytest.raises(StoreError, match="closed"):
            await asking


async def test_a_file_that_is_no_database(path: Path) -> None:
    """Refused with what to do, and left as it is."""
    _write(path, b"not a database, " * 1_000)
    for read_only in (False, True):
        with pytest.raises(StoreCorrupt, match="move it aside"):
            await SqliteStore.open(path, read_only=read_only)
    assert await asyncio.to_thread(path.read_bytes) == b"not a database, " * 1_000


async def test_a_damaged_page(path: Path) -> None:
    """Damage in the middle is reported when it is met."""
    store = await SqliteStore.open(path)
    conversation = await _conversation(store)
    messages = [Message(role="user", content="x" * 500) for _ in range(500)]
    await store.sessions.append(conversation.live_session_id, messages)
    await store.close()
    _damage(path)
    store = await SqliteStore.open(path)
    with pytest.raises(StoreCorrupt):
        await store.sessions.history(conversation.live_session_id)
    await store.close()


async def test_a_database_of_another_program(path: Path) -> None:
    """Hermes does not use another program's file."""
    _write(path, b"")
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE photos (id)")
    with pytest.raises(StoreError, match="another program"):
        await SqliteStore.open(path)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("photos",)]


async def test_a_newer_schema_is_refused(path: Path) -> None:
    """A database that a newer Hermes has written is not touched by an older one."""
    await (await SqliteStore.open(path)).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as newer:
        newer.execute("INSERT INTO schema_migrations VALUES (9999, 'from the future', 0)")
    for read_only in (False, True):
        with pytest.raises(NewerSchema, match="upgrade Hermes"):
            await SqliteStore.open(path, read_only=read_only)


async def test_a_database_in_use_by_another_program(path: Path) -> None:
    """The sentence says what to do about it."""
    await (await SqliteStore.open(path)).close()
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as holder,
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as late,
    ):
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError) as locked:
            late.execute("BEGIN IMMEDIATE")
    assert "close it and try again" in str(as_store_error(locked.value))


async def test_a_read_only_file_system(small_disk: Path) -> None:
    """Neither an existing database nor a new one can be opened for writing there."""
    path = small_disk / "state.db"
    await (await SqliteStore.open(path)).close()
    _make_read_only(small_disk)
    for unwritable in (path, small_disk / "new" / "state.db"):
        with pytest.raises(StoreReadOnly, match="permissions"):
            await SqliteStore.open(unwritable)


async def test_a_directory_in_place_of_the_file(tmp_path: Path) -> None:
    """A path that leads to a directory is an error of ours, with the path in it."""
    with pytest.raises(StoreError, match=str(tmp_path)):
        await SqliteStore.open(tmp_path)


async def test_no_room_to_begin(small_disk: Path) -> None:
    """A disk that is full from the start."""
    _fill(small_disk / "ballast")
    with pytest.raises(StoreFull, match="free some space"):
        await SqliteStore.open(small_disk / "state.db")


async def test_a_disk_that_fills_up_and_is_cleared(small_disk: Path) -> None:
    """What was acknowledged stays, what was not is refused whole, and with room again it goes on by itself."""
    store = await SqliteStore.open(small_disk / "state.db")
    conversation = await _conversation(store)
    acknowledged: list[Message] = []
    _fill(small_disk / "ballast", leave=300_000)
    with pytest.raises(StoreFull, match="Nothing stored was lost"):
        for _ in range(1_000):
            batch = [Message(role="user", content="x" * 2_000) for _ in range(2)]
            acknowledged += await store.sessions.append(conversation.live_session_id, batch)
    assert acknowledged
    assert await store.sessions.history(conversation.live_session_id) == acknowledged
    with pytest.raises(HermesError):
        await store.sessions.remember("ada", "y" * 400_000)

    (small_disk / "ballast").unlink()
    acknowledged += await store.sessions.append(
        conversation.live_session_id, [Message(role="user", content="again")]
    )
    assert await store.sessions.history(conversation.live_session_id) == acknowledged
    assert len(await store.sessions.search("again")) == 1
    await store.close()
    with closing(sqlite3.connect(small_disk / "state.db")) as plain:
        assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def _fill(ballast: Path, *, leave: int = 0) -> None:
    free = shutil.disk_usage(ballast.parent).free
    ballast.write_bytes(bytes(free - leave))
