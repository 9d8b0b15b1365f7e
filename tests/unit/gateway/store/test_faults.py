"""SQLite only: the database is locked, full or read-only while Hermes runs.

Every write raises the matching error and stores nothing, reading and searching continue, and afterwards the same open
store works again.
"""

from __future__ import annotations

import asyncio
import resource
import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent.errors import SearchIndexDamaged, StoreBusy, StoreError, StoreFull, StoreReadOnly
from agent.llm import Usage
from agent.messages import Message
from agent.store import Address, Compaction, Conversation, Split
from gateway.store.sqlite.connection import WAL_LIMIT_BYTES, open_reader, open_writer
from gateway.store.sqlite.database import Database
from gateway.store.sqlite.store import SqliteStore
from tests.support.index_damage import DAMAGE
from tests.support.store_faults import (
    Fault,
    StoreOnDisk,
    fill,
    full,
    held,
    read_only,
    require_small_disk,
    small_disk,
)


@asynccontextmanager
async def unwritable(home: StoreOnDisk) -> AsyncIterator[None]:
    """The operating system refuses to write, as it does when a disk turns read-only under a running program."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


FAULTS: list[tuple[Fault, type[StoreError]]] = [
    (held, StoreBusy),
    (full, StoreFull),
    (read_only, StoreReadOnly),
    (unwritable, StoreReadOnly),
]


async def open_another(home: StoreOnDisk, conversation: Conversation) -> object:
    return await home.store.sessions.open_conversation(Address("web", "another"), person="bob")


async def append(home: StoreOnDisk, conversation: Conversation) -> object:
    said = [Message(role="user", content="one"), Message(role="assistant", content="two")]
    return await home.store.sessions.append(conversation.live_session_id, said)


async def split(home: StoreOnDisk, conversation: Conversation) -> object:
    (kept, *_) = await home.store.sessions.history(conversation.live_session_id)
    summary = Message(role="user", content="what was said", kind="summary")
    done = Compaction("threshold", "compressor", 2, 2, 200, 100)
    return await home.store.sessions.split(
        Split(conversation.live_session_id, "compression", [summary, kept.id], compaction=done)
    )


async def record_usage(home: StoreOnDisk, conversation: Conversation) -> object:
    return await home.store.sessions.record_usage(conversation.live_session_id, Usage(10, 20), model="m")


VERBS: list[Callable[[StoreOnDisk, Conversation], Awaitable[object]]] = [
    open_another,
    append,
    split,
    record_usage,
]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path) as directory:
        yield directory


@pytest.fixture
async def home(disk: Path) -> AsyncIterator[StoreOnDisk]:
    path = disk / "state.db"
    writing = await open_writer(path)
    store = SqliteStore(Database(path, [await open_reader(path), await open_reader(path)], writing))
    yield StoreOnDisk(path, store, writing)
    await store.close()


@pytest.fixture
async def conversation(home: StoreOnDisk) -> Conversation:
    made = await home.store.sessions.open_conversation(Address("web", "1"), person="ada")
    await home.store.sessions.append(made.live_session_id, [Message(role="user", content="an old apple")])
    await home.store.sessions.search("apple")  # the index is up to date
    return made


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
@pytest.mark.parametrize(("fault", "error"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
async def test_refused_whole_and_done_when_the_trouble_is_over(
    home: StoreOnDisk,
    conversation: Conversation,
    fault: Fault,
    error: type[StoreError],
    verb: Callable[[StoreOnDisk, Conversation], Awaitable[object]],
) -> None:
    """The right sentence, not a row more or less, and afterwards it works as if nothing had been."""
    require_small_disk(fault, home)
    before = home.rows()
    async with fault(home):
        for _ in range(2):
            with pytest.raises(error):
                await verb(home, conversation)
        assert home.rows() == before
        assert len(await home.store.sessions.history(conversation.live_session_id)) == 1
        assert await home.store.sessions.conversation(conversation.id) == conversation
    await verb(home, conversation)
    assert home.rows() != before
    assert home.is_sound()


@pytest.mark.parametrize(("fault", "error"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
async def test_many_at_once_are_all_refused(
    home: StoreOnDisk, conversation: Conversation, fault: Fault, error: type[StoreError]
) -> None:
    """They would have shared a transaction; each hears of it, and none is stored by mistake."""
    require_small_disk(fault, home)
    before = home.rows()
    async with fault(home):
        outcomes = await asyncio.gather(
            *(home.store.sessions.remember("ada", str(number)) for number in range(20)),
            return_exceptions=True,
        )
        assert {type(outcome) for outcome in outcomes} == {error}
        assert home.rows() == before
    await home.store.sessions.remember("ada", "at last")
    assert [fact.text for fact in await home.store.sessions.facts("ada")] == ["at last"]


@pytest.mark.parametrize("fault", [fault for fault, _ in FAULTS], ids=lambda fault: fault.__name__)
async def test_a_search_goes_on(home: StoreOnDisk, conversation: Conversation, fault: Fault) -> None:
    """It finds what the index holds and what the index could not be told of; later the index is told."""
    require_small_disk(fault, home)
    await home.store.sessions.append(
        conversation.live_session_id, [Message(role="user", content="a new apple")]
    )
    async with fault(home):
        with capture_logs():
            found = await home.store.sessions.search("apples")
        assert [hit.message.content for hit in found] == ["a new apple", "an old apple"]
    assert [hit.message.content for hit in await home.store.sessions.search("apples")] == [
        "a new apple",
        "an old apple",
    ]
    with closing(sqlite3.connect(home.path)) as plain:
        assert plain.execute("SELECT count(*) FROM message_index_docsize").fetchone() == (2,)


async def test_searches_do_not_queue_up_behind_a_database_that_is_held(
    home: StoreOnDisk, conversation: Conversation
) -> None:
    """One of them finds out that the index cannot be brought up to date; the others take its word for it."""
    attempts: list[str] = []
    while not attempts:
        await home.store.sessions.append(
            conversation.live_session_id, [Message(role="user", content="a new apple")]
        )
        async with held(home):
            await home.writing.set_trace_callback(
                lambda sql: sql == "BEGIN IMMEDIATE" and attempts.append(sql)
            )
            with capture_logs():
                await asyncio.gather(*(home.store.sessions.search("apple") for _ in range(10)))
            await home.writing.set_trace_callback(None)
        # None at all if the index was quicker than this test.
    assert len(attempts) <= 2  # the second, if it comes, is the one in the background


async def test_closed_on_a_full_disk(disk: Path) -> None:
    """This is not an error, and acknowledged writes are there at the next start."""
    store = await SqliteStore.open(disk / "state.db")
    if shutil.disk_usage(disk).total > 10_000_000:
        await store.close()
        pytest.skip("only root in a real system can mount a small file system")
    made = await store.sessions.open_conversation(Address("web", "1"), person="ada")
    stored = await store.sessions.append(made.live_session_id, [Message(role="user", content="x" * 100_000)])
    ballast = fill(disk)
    await store.close()
    ballast.unlink()
    again = await SqliteStore.open(disk / "state.db")
    assert await again.sessions.history(made.live_session_id) == stored
    await again.close()


async def test_a_log_that_grew_is_cut_again(path: Path) -> None:
    """A long read, such as a backup, makes the log grow. Afterwards the disk space is freed."""
    store = await SqliteStore.open(path)
    log = path.with_name("state.db-wal")
    made = await store.sessions.open_conversation(Address("web", "1"), person="ada")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM messages").fetchone()
        while log.stat().st_size < 2 * WAL_LIMIT_BYTES:
            await store.sessions.append(made.live_session_id, [Message(role="tool", content="y" * 2_000_000)])
        reader.execute("ROLLBACK")
    for _ in range(2):  # the first checkpoints the log, the second restarts it
        await store.sessions.append(made.live_session_id, [Message(role="user", content="z")])
    assert log.stat().st_size <= WAL_LIMIT_BYTES
    await store.close()


@pytest.mark.parametrize("damage", ["no structure", "a structure that names too much"])
async def test_a_damaged_index_is_told_from_a_damaged_database(
    home: StoreOnDisk, conversation: Conversation, damage: str
) -> None:
    """A search reports how to repair the index; a conversation is not affected."""
    with closing(sqlite3.connect(home.path, isolation_level=None)) as other:
        other.execute(DAMAGE[damage])
    with capture_logs():
        with pytest.raises(SearchIndexDamaged, match="hermes doctor --repair"):
            await home.store.sessions.search("apple")
        await home.store.sessions.append(
            conversation.live_session_id, [Message(role="user", content="go on")]
        )
    assert len(await home.store.sessions.history(conversation.live_session_id)) == 2
