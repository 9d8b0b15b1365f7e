# ruff: noqa: S608 - nothing from outside is put into the SQL
"""Whether a message or a summary is in the present context, beneath something in it, or elsewhere."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from .graph import Node, summaries_by_key
from .search.request import Hit
from .stats import CONTEXT_QUERY, context_parameters
from .tools.context import CallContext

_IN = "in the present context"
_ELSEWHERE = "not in the present context (another branch, undone, before a reset, or another conversation)"


@dataclass(frozen=True, slots=True)
class Standing:
    connection: sqlite3.Connection
    roots: frozenset[int]
    """Summaries that stand in the context themselves."""
    beneath: frozenset[int]
    """Summaries that those stand over."""
    direct: frozenset[int]
    """Messages that stand in the context themselves."""

    def of_summary(self, key: int) -> str:
        if key in self.roots:
            return _IN
        return "beneath a summary in the present context" if key in self.beneath else _ELSEWHERE

    def of_message(self, key: int) -> str:
        if key in self.direct:
            return _IN
        rows = self.connection.execute("SELECT summary FROM summary_messages WHERE message = ?", (key,))
        shown = self.roots | self.beneath
        if any(row["summary"] in shown for row in rows):
            return "beneath a summary in the present context"
        return _ELSEWHERE


def standing(connection: sqlite3.Connection, call: CallContext) -> Standing:
    here = context_parameters(call)
    reached = {
        row["summary"] for row in connection.execute(f"{CONTEXT_QUERY} SELECT summary FROM reached", here)
    }
    items = connection.execute(f"{CONTEXT_QUERY} SELECT message, summary FROM items", here).fetchall()
    roots = {row["summary"] for row in items} - {None}
    direct = {row["message"] for row in items} - {None}
    return Standing(connection, frozenset(roots), frozenset(reached - roots), frozenset(direct))


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
