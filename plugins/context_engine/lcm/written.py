"""Texts that the engine put into a context itself, and how it knows them again.

Each begins with the engine's mark, and its fingerprint is stored. So what somebody else wrote can never pass for one,
and no text of the engine's is ever taken for something that was said.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

MARK = "[LCM "
RECORD = f"{MARK}RECORD]"
Kind = Literal["record", "copy", "hint"]


@dataclass(frozen=True, slots=True)
class OwnText:
    kind: Kind
    summaries: tuple[int, ...] = ()
    """Of a record: those it shows, in order."""
    message: int = 0
    """Of a copy: the whole message."""


def recognised(connection: sqlite3.Connection, conversation: int, text: str) -> OwnText | None:
    if not text.startswith(MARK):
        return None
    row = connection.execute(
        "SELECT key, kind, message FROM written WHERE conversation = ? AND fingerprint = ?",
        (conversation, _fingerprint(text)),
    ).fetchone()
    if row is None:
        return None
    shown = connection.execute(
        "SELECT summary FROM written_summaries WHERE written = ? ORDER BY position", (row["key"],)
    )
    return OwnText(row["kind"], tuple(each["summary"] for each in shown), row["message"] or 0)


def remember_record(
    connection: sqlite3.Connection, conversation: int, text: str, summaries: Sequence[int]
) -> None:
    if key := _remember(connection, conversation, text, "record", None):
        connection.executemany(
            "INSERT INTO written_summaries (written, position, summary) VALUES (?, ?, ?)",
            ((key, position, summary) for position, summary in enumerate(summaries)),
        )


def remember_copy(connection: sqlite3.Connection, conversation: int, text: str, message: int) -> None:
    _remember(connection, conversation, text, "copy", message)


def remember_hint(connection: sqlite3.Connection, conversation: int, text: str) -> None:
    _remember(connection, conversation, text, "hint", None)


def _remember(
    connection: sqlite3.Connection, conversation: int, text: str, kind: Kind, message: int | None
) -> int | None:
    """Its key, or None if it was known."""
    made = connection.execute(
        "INSERT INTO written (conversation, fingerprint, kind, message) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (conversation, _fingerprint(text), kind, message),
    )
    return made.lastrowid if made.rowcount else None


def _fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
