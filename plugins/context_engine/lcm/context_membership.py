# ruff: noqa: S608 - only a constant query is put into the SQL
"""Tells whether a message or a summary is in the current context, below a summary in it, or elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from sqlite3 import Connection

from .graph import Node, summaries_by_key
from .search.request import Hit
from .stats import CONTEXT_QUERY, context_parameters
from .tools.tool import CallContext

_IN = "in the present context"
_BELOW = "below a summary in the present context"
_NOT_IN = "not in the present context (another branch, undone, before a reset, or another conversation)"
IN_CONTEXT = "in your context"
ELSEWHERE = "elsewhere: another branch, undone, or before a reset"


@dataclass(frozen=True, slots=True)
class ContextMembers:
    """Keys of the messages and summaries that the model sees."""

    conversation: int
    messages: frozenset[int]
    summaries: frozenset[int]
    """Summaries in the context and all summaries below them."""
    roots: frozenset[int] = frozenset()
    """Summaries in the context."""

    @classmethod
    def load(cls, connection: Connection, call: CallContext) -> ContextMembers:
        here = context_parameters(call)
        items = connection.execute(f"{CONTEXT_QUERY} SELECT message, summary FROM items", here).fetchall()
        reached = connection.execute(f"{CONTEXT_QUERY} SELECT summary FROM reached", here)
        row = connection.execute(
            "SELECT key FROM conversations WHERE id = ?", (call.conversation_id,)
        ).fetchone()
        return cls(
            conversation=row["key"] if row else 0,
            messages=frozenset(item["message"] for item in items if item["message"]),
            summaries=frozenset(each["summary"] for each in reached),
            roots=frozenset(item["summary"] for item in items if item["summary"]),
        )

    def describe_summary(self, key: int) -> str:
        if key in self.roots:
            return _IN
        return _BELOW if key in self.summaries else _NOT_IN

    def describe_message(self, connection: Connection, key: int) -> str:
        if key in self.messages:
            return _IN
        leaves = _leaves_of(connection, [key]).get(key, ())
        return _NOT_IN if self.summaries.isdisjoint(leaves) else _BELOW


@dataclass(frozen=True, slots=True)
class Cover:
    """The leaf that covers a message, and where the message is."""

    conversation: int
    leaf: Node | None = None
    is_foreign: bool = False
    """Whether the message belongs to another conversation of the same person."""
    note: str = ""
    """Why no summary in the context covers the message."""


def covers_of(connection: Connection, hits: Sequence[Hit], context: ContextMembers) -> dict[int, Cover]:
    """Return the covering leaf of each hit, by message key."""
    leaves = _leaves_of(connection, [hit.key for hit in hits])
    # Prefer a leaf that the context shows, then the oldest.
    chosen = {key: min(context.summaries.intersection(some) or some) for key, some in leaves.items()}
    nodes = summaries_by_key(connection, chosen.values())
    return {hit.key: _cover(hit, nodes.get(chosen.get(hit.key, 0)), context) for hit in hits}


def _cover(hit: Hit, leaf: Node | None, context: ContextMembers) -> Cover:
    if hit.conversation != context.conversation:
        return Cover(hit.conversation, leaf, is_foreign=True)
    if hit.key in context.messages:
        return Cover(hit.conversation, note=IN_CONTEXT)
    is_known = bool(context.messages or context.summaries)
    if is_known and (leaf is None or leaf.key not in context.summaries):
        return Cover(hit.conversation, leaf, note=ELSEWHERE)
    return Cover(hit.conversation, leaf)


def _leaves_of(connection: Connection, keys: Sequence[int]) -> dict[int, list[int]]:
    rows = connection.execute(
        "SELECT message, summary FROM summary_messages WHERE message IN (SELECT value FROM json_each(?))",
        (json.dumps(keys),),
    )
    leaves: dict[int, list[int]] = {}
    for message, summary in rows:
        leaves.setdefault(message, []).append(summary)
    return leaves
