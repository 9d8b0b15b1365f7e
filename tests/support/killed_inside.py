"""A program that splits a session and dies in the middle of it: before and after each statement of its transaction.

A profile function counts the calls and their returns, so nothing in the store is changed. The n-th run works on a
database of its own, `<n>.db`, and kills itself at the n-th of them; the last run is the one that survives.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import structlog

from gateway.store.sql.batch_writer import commit_together
from gateway.store.sqlite.store import SqliteStore
from tests.support.splitting import open_chat, say_something, split


class Countdown:
    """Set with `threading.setprofile` before the store opens; begins to count when it is armed."""

    def __init__(self, events: int) -> None:
        self._left = events
        self.armed = False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        is_statement = isinstance(getattr(argument, "__self__", None), sqlite3.Connection)
        if self.armed and is_statement and _is_writing(frame):
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def _is_writing(frame: FrameType | None) -> bool:
    """Another thread may be reading at the same time."""
    while frame and frame.f_code is not commit_together.__code__:
        frame = frame.f_back
    return frame is not None


async def _prepare(path: Path) -> None:
    store = await SqliteStore.open(path)
    conversation = await open_chat(store.sessions, 0)
    for _ in range(5):
        await say_something(store.sessions, conversation.live_session_id)
    await store.sessions.search("word")  # nothing is left for the index to do
    await store.close()


async def _split_until_dead(path: Path, countdown: Countdown) -> None:
    threading.setprofile(countdown)
    store = await SqliteStore.open(path)
    conversation = await open_chat(store.sessions, 0)
    history = await store.sessions.history(conversation.live_session_id)
    countdown.armed = True
    await split(store.sessions, conversation.live_session_id, [message.id for message in history[-4:]])


def _dies(path: Path, events: int) -> bool:
    """In a process of its own. A fork, because there are many of them and imports take half a second."""
    if (child := os.fork()) == 0:
        asyncio.run(_split_until_dead(path, Countdown(events)))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0, status
    return os.WIFSIGNALED(status)


def main(folder: Path) -> None:
    asyncio.run(_prepare(folder / "0.db"))
    number = 1
    while _dies(shutil.copy(folder / "0.db", folder / f"{number}.db"), number):
        number += 1


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    main(Path(sys.argv[1]))
