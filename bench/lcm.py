"""The lossless engine: storing, compacting, searching, and what a message costs on the disk."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from agent.context_compressor import ContextCompressor
from bench.context import history
from plugins.context_engine.lcm.database import connect, shared_database
from plugins.context_engine.lcm.engine import LosslessContext
from plugins.context_engine.lcm.search.semantic import SemanticSearch, is_installed, update_embeddings

_WORDS = 20_000
_WINDOW = 200_000
_AT_ONCE = 100
_SEARCHES = 12
_ROUNDS = 5

_BY = {"off": "by words", "auto": "by words and meaning"}
_GROWS = {
    "off": "with the messages that have a word of the query",
    "auto": "and with all messages, up to the newest 102,400",
}

Row = tuple[str, str, str, str]


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="hermes-bench-") as folder:
        yield _one_turn(Path(folder) / "turn")
        yield from _compaction(Path(folder) / "compaction")
        yield from _growing(Path(folder) / "growing")


def _growing(home: Path) -> Iterator[Row]:
    """One conversation of 100,000 messages; then nine hundred others of 1,000 beside it."""
    home.mkdir()
    began = time.process_time()
    _fill(home, "chat-0", 100_000, seed=0)
    seconds = time.process_time() - began
    yield (
        f"store 100,000 messages, {_AT_ONCE} at a time, CPU",
        f"{100_000 / seconds:,.0f} messages/s",
        "> 5,000/s",
        "each costs the same",
    )
    yield _size(home)
    kinds = ["off", "auto"] if is_installed() else ["off"]
    if is_installed():
        yield _meaning(home)
    small = {kind: _searching(home, "chat-0", kind) for kind in kinds}
    for kind in kinds:
        what = f"lcm_grep in a conversation of 100,000 messages, {_BY[kind]}, CPU"
        yield (what, f"{small[kind]:.0f} ms, {small[kind] / small['off']:.1f}x", "< 100 ms", _GROWS[kind])
    for number in range(1, 901):
        _fill(home, f"chat-{number}", 1_000, seed=number)
    for kind in kinds:
        large, few = _searching(home, "chat-0", kind), _searching(home, "chat-1", kind)
        yield (
            f"the same beside 900 other conversations, 1,000,000 messages in all, {_BY[kind]}",
            f"{large:.0f} ms, {large / small[kind]:.1f}x",
            "< 3x",
            "not with the messages of others",
        )
        what = f"lcm_grep in a conversation of 1,000 among them, {_BY[kind]}, CPU"
        yield (what, f"{few:.0f} ms", "< 100 ms", _GROWS[kind])


def _meaning(home: Path) -> Row:
    """What a message costs that is to be found by its meaning, once, between turns or before a search."""
    model = SemanticSearch("auto").model()
    assert model
    database = shared_database(home / "hermes-lcm.db")
    began = time.process_time()
    update_embeddings(database, "chat-0", model, 100_000)
    milliseconds = (time.process_time() - began) * 1000 / 100_000
    with database.reading() as connection:
        count, size = connection.execute(
            "SELECT sum(messages), sum(length(vectors)) FROM meanings"
        ).fetchone()
    database.release()
    assert count == 100_000
    return (
        "the meaning of a message, CPU",
        f"{milliseconds:.2f} ms, {size / count:.0f} bytes",
        "< 2 ms",
        "each costs the same",
    )


def _one_turn(home: Path) -> Row:
    """What a turn costs: a context of 400 messages is looked at, and two of them are new."""
    home.mkdir()
    engine, said = _engine(home, "chat"), list(_messages(600, seed=1))
    engine.should_compress_preflight(said[:400])
    spent: list[float] = []
    for end in range(402, 600, 2):
        began = time.process_time()
        engine.should_compress_preflight(said[end - 400 : end])
        spent.append(time.process_time() - began)
    engine.on_session_end("session", [])
    milliseconds = median(spent) * 1000
    return (
        "look at 400 messages, 2 of them new, CPU",
        f"{milliseconds:.1f} ms",
        "< 20 ms",
        "linear in the context",
    )


def _compaction(home: Path) -> Iterator[Row]:
    home.mkdir()
    for count in (1_000, 10_000):
        messages = history(count)
        window = min(_WINDOW, 40 * count)
        ours = _cpu(lambda m=messages, w=window: _compacted(home, m, w))  # type: ignore[misc]
        theirs = _cpu(lambda m=messages, w=window: _compressed(m, w))  # type: ignore[misc]
        yield (
            f"compress(), {count:,} messages seen for the first time, CPU",
            f"{ours:.0f} ms, {ours / theirs:.1f}x the built-in engine",
            "-",
            "linear: each message is stored and indexed",
        )


def _compacted(home: Path, messages: list[dict[str, Any]], window: int) -> None:
    engine = _engine(home, f"chat-{time.perf_counter_ns()}", window)
    assert len(engine.compress(messages)) < len(messages)
    engine.on_session_end("session", [])


def _compressed(messages: list[dict[str, Any]], window: int) -> None:
    ContextCompressor(window, summarize=_summarise).compress(messages)


def _searching(home: Path, conversation: str, semantic: str) -> float:
    """The median of several questions, in milliseconds of CPU, with words from frequent to rare."""
    engine, choose = _engine(home, conversation, semantic=semantic), random.Random(7)
    engine.handle_tool_call("lcm_grep", {"query": "what is new here is worked out now"})
    spent: list[float] = []
    for _ in range(_SEARCHES):
        question = " ".join(["when did we talk about", *(_word(choose) for _ in range(4))])
        began = time.process_time()
        assert "error" not in engine.handle_tool_call("lcm_grep", {"query": question})[:20]
        spent.append(time.process_time() - began)
    engine.on_session_end("session", [])
    return median(spent) * 1000


def _size(home: Path) -> Row:
    with closing(sqlite3.connect(home / "hermes-lcm.db")) as plain:
        plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        count, text = plain.execute(
            "SELECT count(*), sum(length(CAST(content AS BLOB))) FROM messages"
        ).fetchone()
    each = (home / "hermes-lcm.db").stat().st_size / count
    return (
        "database for each message",
        f"{each:,.0f} bytes, {each / (text / count):.1f}x its text",
        "< 3x",
        "linear, with its index",
    )


def _fill(home: Path, conversation: str, count: int, seed: int) -> None:
    engine, batch = _engine(home, conversation), list[dict[str, Any]]()
    for message in _messages(count, seed):
        batch.append(message)
        if len(batch) == _AT_ONCE:
            engine.should_compress_preflight(batch)
            batch = []
    engine.on_session_end("session", batch)


def _messages(count: int, seed: int) -> Iterator[dict[str, Any]]:
    choose = random.Random(seed)
    for number in range(count):
        said = " ".join(_word(choose) for _ in range(choose.randint(8, 45)))
        role = "user" if number % 2 == 0 else "assistant"
        yield {
            "role": role,
            "content": said,
            "message_id": f"msg_{seed}_{number:026}",
            "created_at": number * 60.0,
        }


def _word(choose: random.Random) -> str:
    """Frequent ones often, as in any language."""
    return f"w{choose.choices(range(_WORDS), cum_weights=_FREQUENCIES)[0]}x"


_FREQUENCIES = list(accumulate(1 / (rank + 3) for rank in range(_WORDS)))


def _engine(home: Path, conversation: str, window: int = _WINDOW, semantic: str = "off") -> LosslessContext:
    connect(home / "hermes-lcm.db").close()
    options = {"semantic": semantic}
    engine = LosslessContext(window, hermes_home=str(home), options=options, summarize=_summarise)
    engine.on_session_start("session", conversation_id=conversation, person="ada")
    return engine


def _summarise(prompt: str, max_tokens: int) -> str:
    return "They talked about orders.\nExpand for details about: orders"


def _cpu(run: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.process_time()
        run()
        best = min(best, time.process_time() - began)
    return best * 1000
