"""`kill -9` around a compaction: the conversation is as it was before, or as it is after; nothing between."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.worlds.hermes_process import WebClient, hermes
from tests.worlds.model_server import ModelServer
from tests.worlds.openai import OpenAIWorld

TURNS = 14
KILLS = 12

_SPLITTER = """
import asyncio, sys, structlog
from pathlib import Path
from agent.messages import Message
from agent.store import Address, Compaction, Split
from gateway.store.sqlite import SqliteStore

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))
    place = await store.open_conversation(Address("test", "chat"), person="owner")
    print("ready", flush=True)
    live = place.live_session_id
    while True:
        said = await store.append(live, [Message("user", "word " * 50), Message("assistant", "word " * 50)])
        summary = Message("assistant", "so far", kind="summary")
        done = Compaction("loop", "test", 2, 2, 100, 50)
        context = [summary, *(message.id for message in said)]
        live = (await store.split(Split(live, "compression", context, "prompt", compaction=done))).id

asyncio.run(main())
"""


def _config(world: ModelServer) -> dict[str, Any]:
    model = {
        "name": "openai/test",
        "base_url": world.base_url,
        "api_key": world.api_key,
        "context_length": 4_096,
    }
    return {"model": model, "compression": {"protect_last_n": 2, "memory_flush": False}}


async def test_killed_while_the_summary_is_written(tmp_path: Path) -> None:
    """The parent is live, every message is there, and the conversation goes on and is compacted later."""
    async with OpenAIWorld() as world, hermes(tmp_path / "home", _config(world)) as process:
        async with WebClient.open(process.url, "desk") as person:
            for number in range(TURNS):
                world.reply(chunks=[f"Answer {number}. " + "detail " * 60])
                events = await person.say(f"Question {number}. " + "word " * 60)
                assert events[-1]["type"] == "TurnDone", events[-1]
            before = await person.transcript()
            world.hang()
            await person.send("/compress tides")
            await world.waiting()
        await process.restart(signal.SIGKILL)
        world.release()
        with sqlite3.connect(process.home / "state.db") as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert db.execute("SELECT count(*) FROM compactions WHERE trigger = 'command'").fetchone() == (0,)
        async with WebClient.open(process.url, "desk") as person:
            assert await person.transcript() == before
            world.reply(chunks=["## Goal\nTo survive."])
            events = await person.say("/compress tides")
            notice = next(event["text"] for event in events if event["type"] == "Notice")
            assert notice.startswith("Compressed: "), notice
            world.reply(chunks=["Going on."])
            assert (await person.say("And now?"))[-1]["type"] == "TurnDone"
        assert "To survive." in str(world.requests[-1].body)


def test_killed_around_the_commit(tmp_path: Path) -> None:
    """Whenever it hits, a child is whole: its context, its compaction row, and the pointer to it."""
    path, chance = tmp_path / "state.db", random.Random(1)
    for _ in range(KILLS):
        child = subprocess.Popen(
            [sys.executable, "-c", _SPLITTER, str(path)], stdout=subprocess.PIPE, text=True, env=os.environ
        )
        assert child.stdout and child.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0.01, 0.15))  # the moment is the point: any will do
        child.kill()
        child.wait()
        child.stdout.close()
        _check_whole(path)


def _check_whole(path: Path) -> None:
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        children = db.execute("SELECT id FROM sessions WHERE parent_id IS NOT NULL").fetchall()
        rows = db.execute("SELECT count(*) FROM compactions").fetchone()[0]
        assert rows == len(children)
        contexts = db.execute("SELECT count(*) FROM session_context GROUP BY session_id").fetchall()
        assert contexts == [(3,)] * len(children)
        leaves = db.execute(
            "SELECT id FROM sessions WHERE id NOT IN (SELECT parent_id FROM sessions WHERE parent_id IS NOT NULL)"
        ).fetchall()
        assert leaves == db.execute("SELECT live_session_id FROM conversations").fetchall()
    db.close()
