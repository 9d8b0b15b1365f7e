"""Context engines: compacting with both engines, storing and searching with the lossless one."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import accumulate, islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from agent.context_compressor import ContextCompressor
from agent.tokens import estimate_messages_tokens_rough
from bench.measure import TEMPORARY, Row, cpu_ms
from plugins.context_engine.lcm.database import connect, shared_database
from plugins.context_engine.lcm.engine import LosslessContext
from plugins.context_engine.lcm.search.semantic import SemanticSearch, is_installed, update_embeddings

_WORDS = 20_000
_WINDOW = 200_000
_AT_ONCE = 100
_SEARCHES = 12
_ORDERS = 997

_BY = {"off": "by words", "auto": "by words and meaning"}
_GROWS = {
    "off": "with the messages that have a word of the query",
    "auto": "and with all messages, up to the newest 102,400",
}


def rows() -> Iterator[Row]:
    for count in (100, 1_000, 10_000, 100_000):
        messages = _history(count)
        spent = cpu_ms(lambda m=messages: _compressed(m))  # type: ignore[misc]
        aim = "< 45 ms" if count == 10_000 else "-"
        yield f"compress() of the built-in engine, {count:,} messages, CPU", f"{spent:.1f} ms", aim, "linear"
    messages = _history(10_000)
    spent = cpu_ms(lambda: estimate_messages_tokens_rough(messages))
    yield (
        "estimate_messages_tokens_rough(), 10,000 messages, CPU",
        f"{spent:.1f} ms",
        "< 5 ms",
        "linear",
    )
    with TemporaryDirectory(prefix=TEMPORARY) as folder:
        yield _one_turn(Path(folder) / "turn")
        yield from _compaction(Path(folder) / "compaction")
        yield from _growing(Path(folder) / "growing")


def _growing(home: Path) -> Iterator[Row]:
    """Fill one conversation with 100,000 messages, then nine hundred others with 1,000 each, and search."""
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
        yield _embedding(home)
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


def _embedding(home: Path) -> Row:
    """Measure the embedding of a message. It is made once, between turns or before a search."""
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
        "embedding of a message, CPU",
        f"{milliseconds:.2f} ms, {size / count:.0f} bytes",
        "< 2 ms",
        "each costs the same",
    )


def _one_turn(home: Path) -> Row:
    """Measure a turn: the engine reads a context of 400 messages, two of which are new."""
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
        messages = _history(count)
        lossless = cpu_ms(lambda m=messages: _compacted(home, m), rounds=5)  # type: ignore[misc]
        built_in = cpu_ms(lambda m=messages: _compressed(m), rounds=5)  # type: ignore[misc]
        yield (
            f"compress() of lcm, {count:,} messages seen for the first time, CPU",
            f"{lossless:.0f} ms, {lossless / built_in:.1f}x the built-in engine",
            "-",
            "linear: each message is stored and indexed",
        )


def _compacted(home: Path, messages: list[dict[str, Any]]) -> None:
    engine = _engine(home, f"chat-{time.perf_counter_ns()}", _window(messages))
    assert len(engine.compress(messages)) < len(messages)
    engine.on_session_end("session", [])


def _compressed(messages: list[dict[str, Any]]) -> None:
    engine = ContextCompressor(_window(messages), summarize=_summarise)
    assert len(engine.compress(messages)) < len(messages)


def _window(messages: list[dict[str, Any]]) -> int:
    return min(_WINDOW, 40 * len(messages))


def _searching(home: Path, conversation: str, semantic: str) -> float:
    """Return the median CPU milliseconds of several questions, with words from frequent to rare."""
    engine, choose = _engine(home, conversation, semantic=semantic), random.Random(7)
    engine.handle_tool_call("lcm_grep", {"query": "first search"})
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
    engine, messages = _engine(home, conversation), _messages(count, seed)
    while batch := list(islice(messages, _AT_ONCE)):
        engine.should_compress_preflight(batch)
    engine.on_session_end("session", [])


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
    """Return a word. Some words are frequent, as in any language."""
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


def _history(count: int) -> list[dict[str, Any]]:
    """Return a conversation with a tool call in every second turn. Every second result is long."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are a helpful assistant. " * 20}]
    for turn in range(count):
        order = f"ORD-{turn % _ORDERS:05}"
        messages.append({"role": "user", "content": f"Please look at order {order} and tell me where it is."})
        if turn % 2:
            function = {"name": "get_status", "arguments": f'{{"order": "{order}"}}'}
            call = {"id": f"call_{turn}", "type": "function", "function": function}
            output = f'{{"order": "{order}", "state": "sent"}}' + " line of output" * (
                40 if turn % 4 == 1 else 2
            )
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})
        answer = f"Order {order} was sent on Tuesday with {turn} others. It should arrive within three working days."
        messages.append({"role": "assistant", "content": answer})
        if len(messages) >= count:
            break
    return messages[:count]
