"""SQLite only: writers that share commits, and what happens when one of them fails or walks away."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from blockbuster import BlockingError

from agent.errors import NotFound, StoreError
from agent.llm import Usage
from agent.messages import Message
from agent.store import Address, Fact, Split
from gateway.store.sql import writes
from gateway.store.sql.batch_writer import MAX_TOGETHER, Writer
from gateway.store.sql.database import Connection
from gateway.store.sql.store import SqlStore
from gateway.store.sqlite.connection import ThreadedConnection, open_reader, open_writer


@pytest.fixture
async def connection(path: Path) -> AsyncIterator[ThreadedConnection]:
    connection = await open_writer(path)
    yield connection
    await connection.close()


@pytest.fixture
async def writer(connection: ThreadedConnection) -> Writer:
    return Writer(connection)


def _remember(connection: sqlite3.Connection, text: str) -> str:
    connection.execute(
        "INSERT INTO facts (id, person, text, created_at) VALUES (?, 'p', ?, 0)", (f"id of {text}", text)
    )
    return text


def _remember_and_fail(connection: sqlite3.Connection, error: Exception) -> None:
    _remember(connection, "half done")
    raise error


async def _remembered(path: Path) -> list[str]:
    reader = await open_reader(path)
    try:
        rows = await reader.execute_fetchall("SELECT text FROM facts ORDER BY seq")
        return [text for (text,) in rows]
    finally:
        await reader.close()


class Gate:
    """Holds the writer's thread until it is opened, and tells when it is there."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._open = threading.Event()
        self.reached = asyncio.Event()

    def hold(self, connection: sqlite3.Connection, text: str) -> str:
        self._loop.call_soon_threadsafe(self.reached.set)
        assert self._open.wait(10)
        return _remember(connection, text)

    def open(self) -> None:
        self._open.set()


async def test_waiting_writers_share_a_commit(
    connection: ThreadedConnection, writer: Writer, path: Path
) -> None:
    """Sixty-four that write at once cost one commit, and each gets its own answer."""
    statements: list[str] = []
    await connection.set_trace_callback(statements.append)
    texts = [str(number) for number in range(64)]
    assert await asyncio.gather(*(writer.write(_remember, text) for text in texts)) == texts
    assert statements.count("COMMIT") == 1
    assert await _remembered(path) == texts


async def test_those_who_come_during_a_commit_share_the_next(
    connection: ThreadedConnection, writer: Writer
) -> None:
    """However long a transaction takes, those who wait for it need only one more."""
    statements: list[str] = []
    await connection.set_trace_callback(statements.append)
    gate = Gate()
    first = asyncio.create_task(writer.write(gate.hold, "first"))
    await gate.reached.wait()
    others = [asyncio.create_task(writer.write(_remember, str(number))) for number in range(10)]
    await asyncio.sleep(0)  # lets them queue up behind the gate
    gate.open()
    await asyncio.gather(first, *others)
    assert statements.count("COMMIT") == 2


async def test_a_crowd_is_served_in_bounded_parts(
    connection: ThreadedConnection, writer: Writer, path: Path
) -> None:
    """More than one transaction should hold takes several, in order."""
    statements: list[str] = []
    await connection.set_trace_callback(statements.append)
    texts = [str(number) for number in range(MAX_TOGETHER * 2 + 1)]
    await asyncio.gather(*(writer.write(_remember, text) for text in texts))
    assert statements.count("COMMIT") == 3
    assert await _remembered(path) == texts


@pytest.mark.parametrize("error", [NotFound("(x)"), ValueError("x"), sqlite3.OperationalError("x")])
async def test_one_that_fails_is_undone_alone(writer: Writer, path: Path, error: Exception) -> None:
    """Its half-done work disappears, its caller hears of it, and its neighbours are stored."""
    outcomes = await asyncio.gather(
        writer.write(_remember, "before"),
        writer.write(_remember_and_fail, error),
        writer.write(_remember, "after"),
        return_exceptions=True,
    )
    expected = StoreError if isinstance(error, sqlite3.Error) else type(error)
    assert isinstance(outcomes[1], expected)
    assert (outcomes[0], outcomes[2]) == ("before", "after")
    assert await _remembered(path) == ["before", "after"]


async def test_a_bug_fails_its_transaction_and_not_the_writer(writer: Writer, path: Path) -> None:
    """An unexpected error reaches every caller of the batch, and the next write succeeds."""
    outcomes = await asyncio.gather(
        writer.write(_remember, "before"),
        writer.write(_remember_and_fail, ZeroDivisionError()),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [ZeroDivisionError, ZeroDivisionError]
    assert await writer.write(_remember, "next") == "next"
    assert await _remembered(path) == ["next"]


async def test_a_caller_who_leaves_while_it_runs(writer: Writer, path: Path) -> None:
    """A running operation cannot be called back: it is stored, and those behind it are served."""
    gate = Gate()
    leaving = asyncio.create_task(writer.write(gate.hold, "running"))
    await gate.reached.wait()
    leaving.cancel()
    behind = asyncio.create_task(writer.write(_remember, "behind"))
    gate.open()
    assert await behind == "behind"
    assert leaving.cancelled()
    assert await _remembered(path) == ["running", "behind"]


async def test_a_caller_who_leaves_the_queue(writer: Writer, path: Path) -> None:
    """What has not begun when its caller leaves is not done."""
    gate = Gate()
    running = asyncio.create_task(writer.write(gate.hold, "running"))
    await gate.reached.wait()
    waiting = [asyncio.create_task(writer.write(_remember, text)) for text in ("leaves", "stays")]
    await asyncio.sleep(0)
    waiting[0].cancel()
    gate.open()
    assert await asyncio.gather(running, waiting[1]) == ["running", "stays"]
    assert await _remembered(path) == ["running", "stays"]


async def test_closing_waits_for_what_was_accepted(writer: Writer, path: Path) -> None:
    """Nothing that was accepted is dropped, and nothing is accepted any more."""
    gate = Gate()
    accepted = [asyncio.create_task(writer.write(gate.hold, "first"))]
    await gate.reached.wait()
    accepted.append(asyncio.create_task(writer.write(_remember, "second")))
    await asyncio.sleep(0)
    closing = asyncio.create_task(writer.close())
    await asyncio.sleep(0)
    gate.open()
    await closing
    assert [task.result() for task in accepted] == ["first", "second"]
    with pytest.raises(StoreError, match="closed"):
        await writer.write(_remember, "late")
    assert await _remembered(path) == ["first", "second"]


async def test_what_need_not_last_does_not_wait_for_the_disk(
    connection: ThreadedConnection, writer: Writer, path: Path
) -> None:
    """Alone it leaves the disk to the next commit; beside something that must last, and afterwards, nothing is lax."""

    def level(connection: sqlite3.Connection) -> int:
        (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
        return int(synchronous)

    normal, full = 1, 2
    assert await writer.write(level, durable=False) == normal
    assert await asyncio.gather(writer.write(level, durable=False), writer.write(level)) == [full, full]
    with pytest.raises(NotFound):
        await writer.write(_remember_and_fail, NotFound(), durable=False)
    assert await writer.write(level) == full
    await writer.write(_remember, "lazy", durable=False)
    assert await _remembered(path) == ["lazy"]


async def test_the_watch_on_the_event_loop_is_awake(path: Path) -> None:
    """The same operation made on the event loop instead of the database's thread is caught."""
    await (await open_writer(path)).close()
    plain = sqlite3.connect(path)
    try:
        with pytest.raises(BlockingError):
            from gateway.store.sql.reads import facts

            facts(plain, "p")
    finally:
        plain.close()


async def test_a_repeated_transaction_changes_nothing(gateway_store: SqlStore) -> None:
    """Whether a commit was carried out may be unknown. Every id is made before, so the same work can be done again."""
    store = gateway_store
    conversation = await store.sessions.open_conversation(Address("web", "42"), person="ada")
    message = (await store.sessions.append(conversation.live_session_id, [Message("user", "hello")]))[0]
    split = Split(conversation.live_session_id, "command", [message.id])
    other = replace(conversation, id="conv_new", address=Address("web", "43"), live_session_id="ses_new")
    fact = Fact("fact_1", "Ada likes tea.", 1.0)
    said = [Message("user", "one"), Message("assistant", "two", state={"a": 1})]
    usage = Usage(100, 10, cost_usd=0.5)

    def work(connection: Connection) -> object:
        opened = writes.open_conversation(connection, other)
        writes.remember(connection, "ada", fact)
        writes.record_usage(connection, other.live_session_id, usage, "m", "turn", "ada", 1_800_000_000.0)
        stored = writes.append(connection, other.live_session_id, said)
        return opened, stored, writes.split(connection, split)

    once, again = [await store.database.write(work, fence=None) for _ in range(2)]
    assert once == again
    assert once[0] == other and once[2] == await store.sessions.session(split.child_id)
    assert await store.sessions.history(other.live_session_id) == once[1]
    assert await store.sessions.usage(conversation_id=other.id) == usage
    assert (await store.sessions.spent(spender="ada")).usd == 0.5
    (spending,) = await store.reports.spending(since=0.0, by=["model"])
    assert (spending.calls, spending.usd) == (1, 0.5)
    assert [session.id for session in await store.sessions.sessions(conversation.id)][1:] == [split.child_id]
    assert await store.sessions.facts("ada") == [fact]


async def test_an_id_of_another_message_is_refused(gateway_store: SqlStore) -> None:
    """Only the very same message may be stored again: nothing is rewritten, and nothing is lost in silence."""
    store = gateway_store
    conversation = await store.sessions.open_conversation(Address("web", "42"), person="ada")
    live = conversation.live_session_id
    one = (await store.sessions.append(live, [Message("user", "one")]))[0]
    later = Message("user", "later")
    for other in ([replace(one, content="two"), later], [one, one, later]):
        with pytest.raises(StoreError):
            await store.sessions.append(live, other)
    assert await store.sessions.append(live, [one, later]) == await store.sessions.history(live)
