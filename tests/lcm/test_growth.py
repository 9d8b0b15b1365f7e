"""What is kept must not grow: descriptors, connections and drafts are bounded, with however many people it talks."""

from __future__ import annotations

import gc
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from agent.llm import Completion, Usage
from plugins.context_engine.lcm.database import FILE_NAME, MOST_OPEN, Database
from plugins.context_engine.lcm.engine import LosslessContext
from tests.agent.histories import chat
from tests.lcm.chats import Host
from tests.lcm.rooms import Chat, opened

CONVERSATIONS = 40
TURNS = 12


def summary(prompt: str, max_tokens: int) -> str:
    return "They talked.\nExpand for details about: the talk"


def descriptors(home: Path) -> int:
    """Of the engine's files. SQLite keeps those of closed connections open while another one holds a lock."""
    count = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            count += str(each.readlink()).startswith(str(home / FILE_NAME))
    return count


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
    most = 2 * MOST_OPEN + 1  # the file and its log for each, and the memory they share
    assert max(seen) <= most
    for host in hosts:
        host.close()
    assert descriptors(tmp_path) == 0


def test_who_waits_too_long_for_a_connection_is_told(tmp_path: Path) -> None:
    """Rather than for ever: the engine says that its file cannot be used now."""
    database = Database(tmp_path / FILE_NAME, patience=0.01)
    with ExitStack() as all_of_them:
        for _ in range(MOST_OPEN):
            all_of_them.enter_context(database.reading())
        with pytest.raises(sqlite3.OperationalError, match="busy"), database.reading():
            pass
    with database.reading() as connection:
        assert connection.execute("SELECT 1").fetchone()[0] == 1


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are counted on Linux")
async def test_conversations_leave_nothing_behind(tmp_path: Path) -> None:
    """Through the gateway: drafts and engines of sessions that are over go with them."""
    async with opened(tmp_path, summarize=summary) as first:
        rooms = [Chat(first.gateway, first.llm, room=f"room-{n}") for n in range(12)]
        compactor = first.gateway.agent.keeper.compactor
        for room in rooms:
            await room.talk(14, "harbour", tokens=3_500)
            await compactor.drafts.settled()
            await room.say("/undo")
            first.llm.requests.clear()
        gc.collect()
        drafts = compactor.drafts._drafts
        live = {id(compactor.engines.peek(each)) for each in drafts}
        assert len(drafts) <= 1 + len(live - {id(None)})
        engines = [each for each in gc.get_objects() if isinstance(each, LosslessContext)]
        assert len(engines) <= len(compactor.engines.conversations) + 1
        assert descriptors(tmp_path) <= 2 * MOST_OPEN + 1
        first.llm.then(Completion("Bye.", usage=Usage(100, 1)))
        await first.say("Bye.")
