# ruff: noqa: S608 - only names of columns and tables are put into the SQL
"""The graph of summaries: leaves cover messages, condensed summaries cover summaries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from sqlite3 import Connection, Row
from typing import Literal

from .messages import StoredMessage, messages_by_key

Level = Literal["detailed", "bullets", "stand_in"]
FALLBACK: Literal["stand_in"] = "stand_in"

MAX_ATTEMPTS = 20
"""Failed attempts to replace a fallback summary. A model that cannot be reached does not count."""


@dataclass(frozen=True, slots=True)
class Node:
    """A summary with the ids, ranges and times that the engine adds."""

    key: int
    depth: int
    level: Level
    content: str
    topics: str
    tokens: int
    source_tokens: int
    message_tokens: int
    message_count: int
    first_seq: int
    last_seq: int
    earliest: float
    latest: float
    attempts: int

    @property
    def id(self) -> str:
        return f"s{self.key}"

    @property
    def is_fallback(self) -> bool:
        return self.level == FALLBACK

    @property
    def can_be_retried(self) -> bool:
        return self.is_fallback and self.attempts < MAX_ATTEMPTS


@dataclass(frozen=True, slots=True)
class SummaryText:
    level: Level
    content: str
    topics: str
    tokens: int


def sources_key(kind: Literal["messages", "summaries"], keys: Sequence[int]) -> str:
    return hashlib.sha256(f"{kind}:{','.join(map(str, keys))}".encode()).hexdigest()[:32]


def find_summary(connection: Connection, conversation: int, sources: str) -> Node | None:
    row = connection.execute(
        "SELECT * FROM summaries WHERE conversation = ? AND sources_key = ?", (conversation, sources)
    ).fetchone()
    return node_from_row(row) if row else None


def add_leaf(
    connection: Connection,
    conversation: int,
    messages: Sequence[StoredMessage],
    text: SummaryText,
    now: float,
) -> Node:
    """Raises sqlite3.IntegrityError if these messages have a leaf already."""
    total = sum(message.tokens for message in messages)
    columns = {
        "depth": 0,
        "source_tokens": total,
        "message_tokens": total,
        "message_count": len(messages),
        "first_seq": min(message.seq for message in messages),
        "last_seq": max(message.seq for message in messages),
        "earliest": min(message.said_at for message in messages),
        "latest": max(message.said_at for message in messages),
        "created_at": now,
    }
    return _insert(connection, conversation, text, "messages", [message.key for message in messages], columns)


def add_condensed(
    connection: Connection, conversation: int, children: Sequence[Node], text: SummaryText, now: float
) -> Node:
    """Raises sqlite3.IntegrityError if these summaries are condensed already."""
    columns = {
        "depth": 1 + max(child.depth for child in children),
        "source_tokens": sum(child.tokens for child in children),
        "message_tokens": sum(child.message_tokens for child in children),
        "message_count": sum(child.message_count for child in children),
        "first_seq": min(child.first_seq for child in children),
        "last_seq": max(child.last_seq for child in children),
        "earliest": min(child.earliest for child in children),
        "latest": max(child.latest for child in children),
        "created_at": now,
    }
    return _insert(connection, conversation, text, "summaries", [child.key for child in children], columns)


def rewrite_summary(connection: Connection, summary: Node, text: SummaryText) -> Node:
    """Replace the text; position and sources stay. A fallback never replaces a written summary."""
    connection.execute(
        "UPDATE summaries SET level = :level, content = :content, topics = :topics, tokens = :tokens, "
        "attempts = attempts + 1 WHERE key = :key AND (level = 'stand_in' OR :level <> 'stand_in')",
        {**asdict(text), "key": summary.key},
    )
    # The summaries above count the new size of their source.
    connection.execute(
        "UPDATE summaries SET source_tokens = ("
        "SELECT sum(child.tokens) FROM summary_children JOIN summaries AS child ON child.key = summary_children.child "
        "WHERE summary_children.parent = summaries.key"
        ") WHERE key IN (SELECT parent FROM summary_children WHERE child = ?)",
        (summary.key,),
    )
    return summaries_by_key(connection, [summary.key])[summary.key]


def summaries_by_key(connection: Connection, keys: Iterable[int]) -> dict[int, Node]:
    rows = connection.execute(
        "SELECT * FROM summaries WHERE key IN (SELECT value FROM json_each(?))", (json.dumps(list(keys)),)
    )
    return {row["key"]: node_from_row(row) for row in rows}


def children_of(connection: Connection, summary: int) -> list[Node]:
    rows = connection.execute(
        "SELECT summaries.* FROM summary_children JOIN summaries ON summaries.key = summary_children.child "
        "WHERE parent = ? ORDER BY position",
        (summary,),
    )
    return list(map(node_from_row, rows))


def message_keys_under(connection: Connection, summary: int) -> list[int]:
    """Return the keys of all messages below a summary, from left to right."""
    children = connection.execute(
        "SELECT child FROM summary_children WHERE parent = ? ORDER BY position", (summary,)
    ).fetchall()
    if children:
        return [key for row in children for key in message_keys_under(connection, row["child"])]
    rows = connection.execute(
        "SELECT message FROM summary_messages WHERE summary = ? ORDER BY position", (summary,)
    )
    return [row["message"] for row in rows]


def summaries_above(connection: Connection, message: int) -> list[Node]:
    """Return the summaries that cover a message, from the leaf up."""
    rows = connection.execute(
        "WITH RECURSIVE above (summary) AS (SELECT summary FROM summary_messages WHERE message = ? "
        "UNION SELECT parent FROM above JOIN summary_children ON child = above.summary) "
        "SELECT summaries.* FROM above JOIN summaries ON key = summary ORDER BY depth, key",
        (message,),
    )
    return list(map(node_from_row, rows))


def has_fallbacks(connection: Connection, conversation: int) -> bool:
    row = connection.execute(
        "SELECT 1 FROM summaries WHERE conversation = ? AND level = 'stand_in' AND attempts < ? LIMIT 1",
        (conversation, MAX_ATTEMPTS),
    ).fetchone()
    return row is not None


def messages_under(connection: Connection, summary: int) -> list[StoredMessage]:
    keys = message_keys_under(connection, summary)
    found = messages_by_key(connection, keys)
    return [found[key] for key in keys]


def node_from_row(row: Row) -> Node:
    return Node(**{name: row[name] for name in Node.__slots__})


_SOURCE_TABLES = {
    "messages": "summary_messages (summary, position, message)",
    "summaries": "summary_children (parent, position, child)",
}


def _insert(
    connection: Connection,
    conversation: int,
    text: SummaryText,
    kind: Literal["messages", "summaries"],
    sources: Sequence[int],
    columns: Mapping[str, int | float],
) -> Node:
    row = {**asdict(text), **columns, "conversation": conversation, "sources_key": sources_key(kind, sources)}
    names, places = ", ".join(row), ", ".join("?" * len(row))
    made = connection.execute(f"INSERT INTO summaries ({names}) VALUES ({places})", tuple(row.values()))
    key = int(made.lastrowid or 0)
    connection.executemany(
        f"INSERT INTO {_SOURCE_TABLES[kind]} VALUES (?, ?, ?)",
        ((key, position, source) for position, source in enumerate(sources)),
    )
    return summaries_by_key(connection, [key])[key]
