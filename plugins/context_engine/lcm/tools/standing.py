# ruff: noqa: S608 - nothing from outside is put into the SQL
"""Whether a message or a summary is in the present context, beneath something in it, or elsewhere."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from ..place import Place
from ..report import CONTEXT, parameters

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


def standing(connection: sqlite3.Connection, place: Place) -> Standing:
    here = parameters(place)
    reached = {row["summary"] for row in connection.execute(f"{CONTEXT} SELECT summary FROM reached", here)}
    items = connection.execute(f"{CONTEXT} SELECT message, summary FROM items", here).fetchall()
    roots = {row["summary"] for row in items} - {None}
    direct = {row["message"] for row in items} - {None}
    return Standing(connection, frozenset(roots), frozenset(reached - roots), frozenset(direct))
