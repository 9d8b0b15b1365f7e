"""Resources stay bounded: memory, descriptors, connections and drafts, however long and with however many people."""

from __future__ import annotations

import gc
import sqlite3
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from agent.llm import Completion, Usage
from plugins.context_engine.lcm.database import FILE_NAME, MAX_CONNECTIONS, Database
from plugins.context_engine.lcm.engine import LosslessContext
from tests.support.histories import chat
from tests.support.lcm_chats import Host
from tests.support.lcm_harness import Chat, opened

CONVERSATIONS = 40
TURNS = 5
ALLOWED_GROWTH = 32_000
"""Bytes. What one compaction leaves behind is far more: its messages have some 10 kB."""


def summary(prompt: str, max_tokens: int) -> str:
    return "They talked.\nExpand for details about: the talk"


def descriptors(home: Path) -> int:
    """Of the engine's files. SQLite keeps those of closed connections open while another one holds a lock."""
    count = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            count += str(each.readlink()).startswith(str(home / FILE_NAME))
    return count


@contextmanager
def traced() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def allocated() -> int:
    """Bytes that code of the engine and of `agent/` has allocated and not freed."""
    gc.collect()
    filters = [tracemalloc.Filter(True, f"*/{folder}/*") for folder in ("context_engine/lcm", "agent")]
    # `tests/unit/plugins` holds what the test itself keeps.
    filters.append(tracemalloc.Filter(False, "*/tests/*"))
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(filters).traces)


def live_objects(*types: type) -> int:
    gc.collect()
    return sum(isinstance(each, types) for each in gc.get_objects())


def test_compactions_leave_nothing_in_memory(tmp_path: Path) -> None:
    """Ten more compactions of one conversation, each with a search, need no more memory than the first five."""
    host = Host(tmp_path, 8_000, summarize=summary)

    def compact(times: int) -> int:
        for _ in range(times):
            host.say(*chat(30, words=60)[1:])
            host.look()
            host.tool("lcm_grep", query="What was the answer to question 12?")
            assert host.compress()
            host.said.clear()
        return allocated()

    with traced():
        before = compact(5)
        after = compact(10)
    assert after - before < ALLOWED_GROWTH
    host.close()


def test_conversations_leave_nothing_in_memory(tmp_path: Path) -> None:
    """An engine and all that belongs to it is freed with its conversation."""

    def converse(first: int, count: int) -> int:
        for number in range(first, first + count):
            host = Host(tmp_path, 8_000, conversation=f"chat-{number}", summarize=summary)
            for _ in range(2):
                host.say(*chat(30, words=60)[1:])
                host.tool("lcm_grep", query="What was the answer to question 12?")
                assert host.compress()
            host.close()
        return allocated()

    others = live_objects(LosslessContext, Database)  # of tests that ran before
    with traced():
        before = converse(0, 4)
        after = converse(4, 6)
    assert after - before < ALLOWED_GROWTH
    assert live_objects(LosslessContext, Database) <= others + 1


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are counted on Linux")
def test_many_threads_share_few_connections(tmp_path: Path) -> None:
    """Each conversation has an engine and a thread of its own; all of them want the file at the same time."""
    hosts = [Host(tmp_path, 8_000, conversation=f"chat-{n}", summarize=summary) for n in range(CONVERSATIONS)]
    together = threading.Barrier(CONVERSATIONS)
    seen: list[int] = []

    def talk(host: Host) -> None:
        together.wait(60)
        for turn in range(TURNS):
            host.say(*chat(2)[1:])
            host.look()
            host.tool("lcm_grep", query=f"answer {turn}")
            host.compress()
            seen.append(descriptors(tmp_path))

    with ThreadPoolExecutor(CONVERSATIONS) as threads:
        list(threads.map(talk, hosts))
    most = 2 * MAX_CONNECTIONS + 1  # the file and its log for each, and the memory they share
    assert max(seen) <= most
    for host in hosts:
        host.close()
    assert descriptors(tmp_path) == 0


def test_who_waits_too_long_for_a_connection_is_told(tmp_path: Path) -> None:
    """Rather than for ever: the engine says that its file cannot be used now."""
    database = Database(tmp_path / FILE_NAME, wait_seconds=0.01)
    with ExitStack() as all_of_them:
        for _ in range(MAX_CONNECTIONS):
            all_of_them.enter_context(database.reading())
        with pytest.raises(sqlite3.OperationalError, match="busy"), database.reading():
            pass
    with database.reading() as connection:
        assert connection.execute("SELECT 1").fetchone()[0] == 1


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are counted on Linux")
async def test_conversations_leave_nothing_behind(tmp_path: Path) -> None:
    """Through the gateway: drafts and engines of sessions that are over go with them."""
    others = live_objects(LosslessContext)
    async with opened(tmp_path, summarize=summary) as first:
        rooms = [Chat(first.gateway, first.llm, room=f"room-{n}") for n in range(12)]
        compactor = first.gateway.agent.auto_compaction.compactor
        for room in rooms:
            await room.talk(14, "harbour", tokens=3_500)
            await compactor.drafts.settled()
            await room.say("/undo")
            first.llm.requests.clear()
        drafts = compactor.drafts._drafts
        live = {id(compactor.engines.peek(each)) for each in drafts}
        assert len(drafts) <= 1 + len(live - {id(None)})
        engines = live_objects(LosslessContext) - others
        assert engines <= len(compactor.engines.conversations) + 1
        assert descriptors(tmp_path) <= 2 * MAX_CONNECTIONS + 1
        first.llm.then(Completion("Bye.", usage=Usage(100, 1)))
        await first.say("Bye.")
