"""Reads the database as a killed process left it: from a copy, so that nothing is touched before the next start."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.chaos.observed import Open, Stored
from tests.e2e.chaos.words import keys_in

_SAID = """
    SELECT m.id, m.role, m.content, m.tool_calls, m.tool_call_id, c.platform, c.chat_id, c.thread_id
    FROM messages AS m JOIN sessions AS s ON s.id = m.session_id JOIN conversations AS c ON c.id = s.conversation_id
    WHERE m.kind = 'said' ORDER BY m.seq
"""


@dataclass
class Contents:
    stored: list[Stored] = field(default_factory=list)
    unfinished: list[Open] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)


@contextmanager
def crash_image(database: Path) -> Iterator[sqlite3.Connection]:
    """What the next process would find; the write-ahead log is part of it."""
    with tempfile.TemporaryDirectory(prefix="hermes-chaos-") as folder:
        for suffix in ("", "-wal"):
            source = database.with_name(database.name + suffix)
            if source.exists():
                shutil.copyfile(source, Path(folder) / source.name)
        with closing(sqlite3.connect(Path(folder) / database.name)) as connection:
            yield connection


def contents(database: Path) -> Contents:
    with crash_image(database) as db:
        return Contents(_stored(db), _unfinished(db), _damage(db))


def damage(database: Path) -> list[str]:
    with crash_image(database) as db:
        return _damage(db)


def rows_about(database: Path, platform: str, number: str, message_id: str) -> Iterator[str]:
    """Return the inbox and outbox rows about one message, to explain a failure."""
    with crash_image(database) as db:
        for row in _dicts(db, "inbox"):
            if row["id"] == message_id or (row["platform"], row["number"]) == (platform, number):
                yield f"inbox {_brief(row)}"
        for row in _dicts(db, "outbox"):
            if message_id and message_id in row.values():
                yield f"outbox {_brief(row)}"


def _stored(db: sqlite3.Connection) -> list[Stored]:
    keys_by_call: dict[str, tuple[str, ...]] = {}
    stored = []
    for message_id, role, content, tool_calls, call_id, platform, chat_id, thread_id in db.execute(_SAID):
        keys: tuple[str, ...] = keys_by_call.get(call_id or "", ())
        for call in json.loads(tool_calls or "[]"):
            found = tuple(keys_in(json.dumps(call)))
            keys_by_call[call["id"]] = found
            keys += found
        chat = ":".join(filter(None, (platform, chat_id, thread_id)))
        stored.append(Stored(chat, role, content, message_id, keys))
    return stored


def _unfinished(db: sqlite3.Connection) -> list[Open]:
    names, found = _tables(db), []
    for box, end in (("inbox", "done"), ("outbox", "sent")):
        if box in names:
            rows = db.execute(f"SELECT id, state, reason FROM {box} WHERE state != ? ORDER BY seq", (end,))
            found += [Open(box, *row) for row in rows]  # type: ignore[arg-type]
    return found


def _damage(db: sqlite3.Connection) -> list[str]:
    lines = [line for (line,) in db.execute("PRAGMA integrity_check") if line != "ok"]
    return lines + [f"foreign key: {row}" for row in db.execute("PRAGMA foreign_key_check")]


def _tables(db: sqlite3.Connection) -> set[str]:
    return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _dicts(db: sqlite3.Connection, table: str) -> Iterator[dict[str, Any]]:
    if table in _tables(db):
        cursor = db.execute(f"SELECT * FROM {table} ORDER BY seq")
        names = [column[0] for column in cursor.description]
        yield from (dict(zip(names, row, strict=True)) for row in cursor)


def _brief(row: dict[str, Any]) -> str:
    return ", ".join(f"{name}={str(value)[:120]!r}" for name, value in row.items())
