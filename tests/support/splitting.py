"""One conversation that is split, as a compaction does it, straight at the store.

As a program it splits until it is killed and prints each child once it was acknowledged.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import structlog

from agent.messages import Message
from agent.store import Address, Compaction, Conversation, SessionStore, Split
from gateway.store.sqlite.store import SqliteStore

CHATS = 4


async def open_chat(store: SessionStore, number: int) -> Conversation:
    return await store.open_conversation(Address("web", str(number)), person="ada")


async def say_something(store: SessionStore, session_id: str) -> list[str]:
    """A question and its answer, in one piece; gives their ids."""
    said = [Message("user", "word " * 50), Message("assistant", "word " * 50)]
    return [message.id for message in await store.append(session_id, said)]


async def split(store: SessionStore, session_id: str, kept: list[str]) -> str:
    """The child's id. Its context is a summary and what is kept."""
    context = [Message("user", "So far so good.", kind="summary"), *kept]
    done = Compaction("loop", "compressor", 40, len(context), 4_000, 500)
    child = await store.split(Split(session_id, "compression", context, "Be brief.", compaction=done))
    return child.id


async def _split_for_ever(path: Path) -> None:
    store = await SqliteStore.open(path)

    async def go_on(number: int) -> None:
        session_id = (await open_chat(store.sessions, number)).live_session_id
        while True:
            session_id = await split(
                store.sessions, session_id, await say_something(store.sessions, session_id)
            )
            print(session_id, flush=True)

    await asyncio.gather(*map(go_on, range(CHATS)))


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(_split_for_ever(Path(sys.argv[1])))
