"""Where a tool of the engine is called from: whose conversation it is, and what it may use."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .database import Database
from .meaning import Meaning
from .meaning.blocks import bring_up_to_date

if TYPE_CHECKING:
    from .meaning.model import Model

_BEFORE_A_SEARCH = 2_048
"""Messages whose meaning is worked out while somebody waits: about a sixth of a second."""

Ask = Callable[[str, int], str]
"""The auxiliary model: a prompt and the most tokens of the answer. Raises a ModelError of `agent.errors`."""


@dataclass(frozen=True, slots=True)
class Place:
    database: Database
    conversation_id: str
    person: str
    """Whose conversation it is; empty where the host has not said."""
    session_id: str
    context_length: int
    threshold_tokens: int
    last_prompt_tokens: int
    ask: Ask
    meaning: Meaning | None = None
    """Whether it is searched by meaning, too; None where nobody knows."""

    def model(self) -> Model | None:
        """For a search by meaning; what was said last is part of it then. None where words have to do."""
        model = self.meaning.model() if self.meaning else None
        if model:
            bring_up_to_date(self.database, self.conversation_id, model, _BEFORE_A_SEARCH)
        return model


def conversations_in_reach(
    connection: sqlite3.Connection, place: Place, *, everywhere: bool
) -> dict[int, str]:
    """Key and id of this conversation, and with `everywhere` of all others of the same person."""
    rows = connection.execute(
        "SELECT key, id FROM conversations WHERE id = :here OR (:everywhere AND :person <> '' AND person = :person)",
        {"here": place.conversation_id, "everywhere": everywhere, "person": place.person},
    )
    return {row["key"]: row["id"] for row in rows}


def present_turn(connection: sqlite3.Connection, place: Place) -> frozenset[int]:
    """The keys of the message that is being answered, and of all that came of it so far."""
    rows = connection.execute(
        "SELECT messages.key, role FROM context_items JOIN sessions ON sessions.key = session "
        "JOIN conversations ON conversations.key = sessions.conversation JOIN messages ON messages.key = message "
        "WHERE conversations.id = ? AND sessions.id = ? ORDER BY position DESC",
        (place.conversation_id, place.session_id),
    )
    turn: list[int] = []
    for key, role in rows:
        turn.append(key)
        if role == "user":
            return frozenset(turn)
    return frozenset()
