"""The store beside raw sqlite3 with the same schema and the same work, at 100,000 messages."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from itertools import accumulate, count, islice
from pathlib import Path

import structlog

from agent.messages import Message, ToolCall
from agent.store import Address, Conversation, Split
from bench.measure import TEMPORARY, Row, format_time, opened_store, p50_and_p99
from gateway.store.sql.rows import MESSAGE_COLUMNS, message_row
from gateway.store.sqlite.store import SqliteStore

MESSAGES = 100_000
CONVERSATIONS = 64
LONG = 10_000
DEPTH = 1_000

INSERT = (
    f"INSERT INTO messages ({MESSAGE_COLUMNS}) VALUES ({', '.join('?' for _ in MESSAGE_COLUMNS.split(','))})"
)

SELECT = f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE session_id = ? AND kind = 'said' ORDER BY seq"


def rows() -> list[Row]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    with tempfile.TemporaryDirectory(prefix=TEMPORARY) as directory:
        return asyncio.run(_measure(Path(directory)))


async def _measure(directory: Path) -> list[Row]:
    path, raw_path = directory / "state.db", directory / "raw.db"
    conversations = await _fill(directory)
    shutil.copy(path, raw_path)
    os.sync()  # or the first commit would wait for the whole copy
    async with opened_store(directory) as store:
        with closing(_raw_connection(raw_path)) as raw:
            appends = [
                *await _lone_appends(store, raw, conversations[0]),
                *await _shared_appends(store, raw, conversations),
            ]
        return [*appends, *await _searches(store), *await _long_session(store, path), await _lineage(store)]


def _raw_connection(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


async def _fill(directory: Path) -> list[Conversation]:
    texts = texts_like_chats(seed=7)
    async with opened_store(directory) as store:
        conversations = [
            await store.sessions.open_conversation(
                Address("bench", str(number)), person=f"person-{number % 8}"
            )
            for number in range(CONVERSATIONS)
        ]
        for start in range(0, MESSAGES, 500):
            conversation = conversations[start // 500 % CONVERSATIONS]
            await store.sessions.append(
                conversation.live_session_id, [_said(text) for text in islice(texts, 500)]
            )
        await update_index(store)
    return conversations


def texts_like_chats(seed: int) -> Iterator[str]:
    """Yield English texts with common and rare words. Every tenth text is Chinese; a few contain `zanzibar`."""
    chance = random.Random(seed)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "il", "or")]
    words = ["the", "and", "to", *("".join(chance.choices(syllables, k=3)) for _ in range(20_000))]
    signs = [chr(0x4E00 + number) for number in range(3_000)]
    word_weights = list(accumulate(1 / (rank + 2) for rank in range(len(words))))
    sign_weights = list(accumulate(1 / (rank + 3) for rank in range(len(signs))))
    for number in count(1):
        length = max(3, int(chance.lognormvariate(3.2, 0.7)))
        if number % 10 == 0:
            yield "".join(chance.choices(signs, cum_weights=sign_weights, k=length))
        else:
            rare = " zanzibar" if number % 9_999 == 0 else ""
            yield " ".join(chance.choices(words, cum_weights=word_weights, k=length)) + rare


def _said(text: str) -> Message:
    return Message(role="user", content=text)


async def update_index(store: SqliteStore) -> None:
    """Finish the search index, which is updated in the background, so that it does not disturb the next figure."""
    await store.sessions.search("anything")


async def _lone_appends(store: SqliteStore, raw: sqlite3.Connection, at: Conversation) -> list[Row]:
    """Alternate in batches of fifty, so that a slow moment of the machine slows both."""
    texts = texts_like_chats(seed=8)
    ours: list[float] = []
    theirs: list[float] = []
    cpu = raw_cpu = index_cpu = 0.0
    for _ in range(20):
        messages = [_said(text) for text in islice(texts, 50)]
        began = time.process_time()
        for message in messages:
            start = time.perf_counter()
            await store.sessions.append(at.live_session_id, [message])
            ours.append(time.perf_counter() - start)
        cpu += time.process_time() - began
        began = time.process_time()
        await update_index(store)
        index_cpu += time.process_time() - began
        began = time.process_time()
        for message in messages:
            start = time.perf_counter()
            raw.execute("BEGIN IMMEDIATE")
            raw.execute(INSERT, message_row(message, at.live_session_id))
            raw.execute("COMMIT")
            theirs.append(time.perf_counter() - start)
        raw_cpu += time.process_time() - began
    (p50, p99), (raw_p50, raw_p99) = p50_and_p99(ours), p50_and_p99(theirs)
    return [
        (
            "append one message alone, p50",
            f"{format_time(p50)}, raw {format_time(raw_p50)}: {p50 / raw_p50:.1f}x",
            "<= 3x raw",
            "constant",
        ),
        ("... p99", f"{format_time(p99)}, raw {format_time(raw_p99)}", "-", "constant"),
        ("... worst", f"{format_time(max(ours))}, raw {format_time(max(theirs))}", "<= 50 ms", "constant"),
        (
            "... CPU",
            f"{format_time(cpu / len(ours))}, raw {format_time(raw_cpu / len(theirs))}",
            "-",
            "constant",
        ),
        ("index one message behind it, CPU", format_time(index_cpu / len(ours)), "-", "log of all messages"),
    ]


async def _shared_appends(
    store: SqliteStore, raw: sqlite3.Connection, conversations: list[Conversation]
) -> list[Row]:
    texts = list(islice(texts_like_chats(seed=9), CONVERSATIONS * 100))
    waits: list[float] = []
    ours: list[float] = []
    theirs: list[float] = []

    async def talk(conversation: Conversation, own: list[str]) -> None:
        for text in own:
            start = time.perf_counter()
            await store.sessions.append(conversation.live_session_id, [_said(text)])
            waits.append(time.perf_counter() - start)

    for _ in range(5):
        start = time.perf_counter()
        await asyncio.gather(
            *(talk(one, texts[number::CONVERSATIONS]) for number, one in enumerate(conversations))
        )
        ours.append(len(texts) / (time.perf_counter() - start))
        await update_index(store)
        start = time.perf_counter()
        for first in range(0, len(texts), CONVERSATIONS):
            raw.execute("BEGIN IMMEDIATE")
            for conversation, text in zip(conversations, texts[first:], strict=False):
                raw.execute(INSERT, message_row(_said(text), conversation.live_session_id))
            raw.execute("COMMIT")
        theirs.append(len(texts) / (time.perf_counter() - start))
    rate, raw_rate = statistics.median(ours), statistics.median(theirs)
    return [
        (
            "64 conversations writing, appends per second",
            f"{rate:,.0f}, raw with 64 per commit {raw_rate:,.0f}: {raw_rate / rate:.1f}x",
            "<= 2x raw",
            "constant",
        ),
        ("... longest wait of one append", format_time(max(waits)), "<= 50 ms", "constant"),
    ]


async def _searches(store: SqliteStore) -> list[Row]:
    await update_index(store)
    found: list[Row] = []
    for name, query, person in (
        ("a rare word", "zanzibar", None),
        ("a word that half of the messages have", "the", None),
        ("three common words", "the and to", None),
        ("a question", "what did the zanzibar and the bank say to you", None),
        ("a common word, one person's", "the", "person-3"),
        ("Chinese, two common characters", "一丁", None),
        ("Chinese, two rare characters", "万丈", None),
        ("Chinese, a sentence", "一丁万丈上下不与", None),
    ):
        times = await _timed(
            20, lambda query=query, person=person: store.sessions.search(query, person=person)
        )
        grows = "bounded" if "common" in name or "half" in name else "number of matches"
        found.append((f"search {name}", _usual(times), "< 20 ms", grows))
    return found


async def _long_session(store: SqliteStore, path: Path) -> list[Row]:
    """Load and split a session in which every third message is a tool call or its result."""
    conversation = await store.sessions.open_conversation(Address("bench", "long"), person="long")
    texts = list(islice(texts_like_chats(seed=10), LONG))
    messages = [_said(text) for text in texts]
    for number in range(0, LONG - 1, 6):
        call = ToolCall(f"call-{number}", "read_file", '{"path": "notes.md"}')
        messages[number] = Message(role="assistant", tool_calls=(call,))
        messages[number + 1] = Message(
            role="tool", content=texts[number + 1], tool_call_id=call.id, name=call.name
        )
    stored = await store.sessions.append(conversation.live_session_id, messages)
    kept: list[str | Message] = [message.id for message in stored]
    summary = Message(role="user", content="what came before", kind="summary")
    del texts, messages, stored  # or the garbage collector would walk them during the loads
    await update_index(store)
    loads, raw_loads = [], []
    with closing(_raw_connection(path)) as raw:
        for _ in range(20):
            loads += await _timed(1, lambda: store.sessions.history(conversation.live_session_id))
            start = time.perf_counter()
            raw.execute(SELECT, (conversation.live_session_id,)).fetchall()
            raw_loads.append(time.perf_counter() - start)
    start = time.perf_counter()
    child = await store.sessions.split(Split(conversation.live_session_id, "compression", [summary, *kept]))
    split = time.perf_counter() - start
    child_loads = await _timed(20, lambda: store.sessions.history(child.id))
    return [
        ("load a history of 10,000", _usual(loads), "< 35 ms", "its length"),
        ("... raw fetchall of the same rows, no objects made", _usual(raw_loads), "-", "its length"),
        ("... through a child's references", _usual(child_loads), "< 35 ms", "its length"),
        ("split, keeping 10,000", format_time(split), "<= 50 ms", "messages kept"),
    ]


async def _lineage(store: SqliteStore) -> Row:
    conversation = await store.sessions.open_conversation(Address("bench", "deep"), person="deep")
    session_id = conversation.live_session_id
    for _ in range(DEPTH):
        session_id = (await store.sessions.split(Split(session_id, "compression"))).id
    times = await _timed(10, lambda: store.sessions.lineage(session_id))
    return ("lineage 1,000 deep, one query", _usual(times), "-", "its depth")


async def _timed(times: int, ask: Callable[[], Awaitable[object]]) -> list[float]:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        await ask()
        taken.append(time.perf_counter() - start)
    return taken


def _usual(times: list[float]) -> str:
    return f"p50 {format_time(statistics.median(times))}, best {format_time(min(times))}"
