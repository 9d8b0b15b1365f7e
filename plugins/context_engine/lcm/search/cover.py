# ruff: noqa: S608 - only question marks are put into the SQL
"""Under which summary a hit stands, and whether the model can see it anyway."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ..summaries import Node, summaries_by_key
from .request import Hit

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Context:
    """What the model has before it."""

    conversation: int
    messages: AbstractSet[int]
    summaries: AbstractSet[int]
    """Those in it and all beneath them."""
    is_known: bool = True
    """Otherwise nothing can be said about where a message stands."""


@dataclass(frozen=True, slots=True)
class Cover:
    conversation: int
    leaf: Node | None = None
    is_foreign: bool = False
    """In another conversation of this person."""
    note: str = ""
    """Why there is no summary, or none within reach."""


IN_CONTEXT = "in your context"
ELSEWHERE = "elsewhere: another branch, undone, or before a reset"


def covers_of(connection: sqlite3.Connection, hits: Sequence[Hit], context: Context) -> dict[int, Cover]:
    """By the key of the message."""
    leaves = _leaves_of(connection, [hit.key for hit in hits])
    chosen = {hit.key: _chosen(leaves.get(hit.key, ()), context) for hit in hits}
    nodes = summaries_by_key(connection, {leaf for leaf in chosen.values() if leaf})
    return {hit.key: _cover(hit, nodes.get(chosen[hit.key]), context) for hit in hits}


def _cover(hit: Hit, leaf: Node | None, context: Context) -> Cover:
    if hit.conversation != context.conversation:
        return Cover(hit.conversation, leaf, is_foreign=True)
    if hit.key in context.messages:
        return Cover(hit.conversation, note=IN_CONTEXT)
    if context.is_known and (leaf is None or leaf.key not in context.summaries):
        return Cover(hit.conversation, leaf, note=ELSEWHERE)
    return Cover(hit.conversation, leaf)


def _chosen(leaves: Sequence[int], context: Context) -> int:
    """One that the context shows, if there are several; the oldest of equals. 0 where there is none."""
    within = [leaf for leaf in leaves if leaf in context.summaries]
    return min(within or leaves, default=0)


def _leaves_of(connection: sqlite3.Connection, keys: Sequence[int]) -> dict[int, list[int]]:
    leaves: dict[int, list[int]] = {}
    for start in range(0, len(keys), _AT_ONCE):
        some = keys[start : start + _AT_ONCE]
        rows = connection.execute(
            f"SELECT message, summary FROM summary_messages WHERE message IN ({', '.join('?' * len(some))})",
            some,
        )
        for message, summary in rows:
            leaves.setdefault(message, []).append(summary)
    return leaves
