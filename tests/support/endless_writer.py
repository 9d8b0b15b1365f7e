"""A program that writes until it is killed, and prints each message once it was acknowledged."""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from pathlib import Path

import structlog

from agent.messages import Message
from agent.store import Address
from gateway.store.sqlite.store import SqliteStore


async def write_for_ever(path: Path) -> None:
    store = await SqliteStore.open(path)

    async def talk(writer: int) -> None:
        conversation = await store.sessions.open_conversation(Address("web", str(writer)), person="ada")
        for number in count():
            text = f"w{writer}x{number}"
            await store.sessions.append(conversation.live_session_id, [Message(role="user", content=text)])
            print(text, flush=True)

    await asyncio.gather(*map(talk, range(8)))


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(write_for_ever(Path(sys.argv[1])))
