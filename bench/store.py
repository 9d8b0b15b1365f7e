"""The store beside raw sqlite3 doing the same to the same schema, at 100,000 messages.

`rows()` gives (what, measured, aim, how it grows); `python -m bench.store` prints them.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import structlog

from agent.ids import new_id
from agent.messages import Message
from agent.store import Address, Conversation, Split
from gateway.store.rows import MESSAGE_COLUMNS, message_row
from gateway.store.sqlite import SqliteStore

Row = tuple[str, str, str, str]

MESSAGES = 100_000
CONVERSATIONS = 64
LONG = 10_000
DEPTH = 1_000

INSERT = f"INSERT INTO messages ({MESSAGE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def rows() -> list[Row]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as directory:
        return asyncio.run(_measure(Path(directory)))


async def _measure(directory: Path) -> list[Row]:
    path, raw_path = directory / "state.db", directory / "raw.db"
    conversations = await _fill(path)
    shutil.copy(path, raw_path)
    store = await SqliteStore.open(path)
    raw = _raw_connection(raw_path)
    try:
        return [
            *await _lone_appends(store, raw, conversations[0]),
            *await _shared_appends(store, raw, conversations),
            *await _searches(store, conversations[0]),
            *await _long_session(store),
            await _deep_lineage(store),
        ]
    finally:
        raw.close()
        await store.close()


async def _fill(path: Path) -> list[Conversation]:
    """A year of a busy house: English with the usual few words everywhere, every tenth message Chinese."""
    store = await SqliteStore.open(path)
    texts = _texts(random.Random(7))
    conversations = [
        await store.open_conversation(Address("bench", str(number)), person=f"person-{number % 8}")
        for number in range(CONVERSATIONS)
    ]
    for start in range(0, MESSAGES, 500):
        conversation = conversations[start // 500 % CONVERSATIONS]
        await store.append(conversation.live_session_id, [_message(next(texts)) for _ in range(500)])
    await store.search("catches up")
    await store.close()
    return conversations


def _texts(chance: random.Random) -> Iterator[str]:
    syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "il", "or")]
    words = ["the", "and", "to", *("".join(chance.choices(syllables, k=3)) for _ in range(20_000))]
    word_weights = [1 / (rank + 2) for rank in range(len(words))]
    signs = [chr(0x4E00 + number) for number in range(3_000)]
    sign_weights = [1 / (rank + 3) for rank in range(len(signs))]
    for number in range(10**9):
        length = max(3, int(chance.lognormvariate(3.2, 0.7)))
        if number % 10 == 0:
            yield "".join(chance.choices(signs, sign_weights, k=length))
        else:
            yield " ".join(chance.choices(words, word_weights, k=length))


def _message(text: str, *, role: str = "user") -> Message:
    return Message(role="user", content=text)


def _raw_connection(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _raw_commit(raw: sqlite3.Connection, session_id: str, messages: list[Message]) -> None:
    raw.execute("BEGIN IMMEDIATE")
    raw.executemany(INSERT, [message_row(message, session_id) for message in messages])
    raw.execute("COMMIT")


async def _lone_appends(store: SqliteStore, raw: sqlite3.Connection, at: Conversation) -> list[Row]:
    """In turns of fifty, so that both meet the same weather."""
    texts = _texts(random.Random(8))
    ours: list[float] = []
    theirs: list[float] = []
    cpu = raw_cpu = 0.0
    for _ in range(20):
        began = time.process_time()
        for _ in range(50):
            message = _message(next(texts))
            start = time.perf_counter()
            await store.append(at.live_session_id, [message])
            ours.append(time.perf_counter() - start)
        cpu += time.process_time() - began
        await store.search("catches up")
        began = time.process_time()
        for _ in range(50):
            message = _message(next(texts))
            start = time.perf_counter()
            _raw_commit(raw, at.live_session_id, [message])
            theirs.append(time.perf_counter() - start)
        raw_cpu += time.process_time() - began
    ratio = statistics.median(ours) / statistics.median(theirs)
    return [
        (
            "append one message, nobody else writing (p50)",
            f"{_us(statistics.median(ours))}, raw {_us(statistics.median(theirs))}: {ratio:.1f}x",
            "<= 3x raw",
            "flat",
        ),
        (
            "the same, p99 / worst",
            f"{_us(_p99(ours))} / {_us(max(ours))}, raw {_us(_p99(theirs))} / {_us(max(theirs))}",
            "worst <= 50 ms",
            "flat: checkpoints and index steps are bounded",
        ),
        (
            "the same, CPU",
            f"{_us(cpu / len(ours))}, raw {_us(raw_cpu / len(theirs))}",
            "",
            "flat",
        ),
    ]


async def _shared_appends(
    store: SqliteStore, raw: sqlite3.Connection, conversations: list[Conversation]
) -> list[Row]:
    each, worst = 100, [0.0]
    chance = _texts(random.Random(9))
    texts = [next(chance) for _ in range(CONVERSATIONS * each)]

    async def write(conversation: Conversation, own: list[str]) -> None:
        for text in own:
            start = time.perf_counter()
            await store.append(conversation.live_session_id, [_message(text)])
            worst[0] = max(worst[0], time.perf_counter() - start)

    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        await asyncio.gather(
            *(write(one, texts[number::CONVERSATIONS]) for number, one in enumerate(conversations))
        )
        ours.append(len(texts) / (time.perf_counter() - start))
        await store.search("catches up")
        start = time.perf_counter()
        for first in range(0, len(texts), CONVERSATIONS):
            raw.execute("BEGIN IMMEDIATE")
            for number, text in enumerate(texts[first : first + CONVERSATIONS]):
                session_id = conversations[number].live_session_id
                raw.execute(INSERT, message_row(_message(text), session_id))
            raw.execute("COMMIT")
        theirs.append(len(texts) / (time.perf_counter() - start))
    ratio = statistics.median(theirs) / statistics.median(ours)
    return [
        (
            "64 conversations writing, appends per second",
            f"{statistics.median(ours):,.0f}, raw batching 64 {statistics.median(theirs):,.0f}: {ratio:.1f}x",
            "<= 2x raw",
            "flat",
        ),
        ("the same, longest wait of one of them", _us(worst[0]), "<= 50 ms", "flat"),
    ]


async def _searches(store: SqliteStore, conversation: Conversation) -> list[Row]:
    await store.search("catches up")
    return []


async def _long_session(store: SqliteStore) -> list[Row]:
    return []


async def _deep_lineage(store: SqliteStore) -> Row:
    return ("", "", "", "")


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def _us(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds >= 0.001 else f"{seconds * 1e6:.0f} µs"


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(row))
