"""When a tool cannot do what it was asked for."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.tokens import cut_to_tokens, estimate_text_tokens

from ..database import Database
from ..graph import Node, node
from ..messages import Stored, messages_between
from ..search.semantic import Meaning, bring_up_to_date

if TYPE_CHECKING:
    from ..search.embeddings import Model


class Refused(Exception):
    """Its text is a sentence for the model that says what to do next."""


def as_error(sentence: str) -> str:
    return json.dumps({"error": sentence}, ensure_ascii=False)


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


MOST_CHARACTERS = 11_500
"""The host shows 12,000 characters of a tool's result and cuts the middle out of a longer one. What the model asked for
word for word must not be cut, so a page ends before that."""

MOST_TOKENS = 12_000
LEAST_TOKENS = 500
"""A header and some words beneath it need room, even in the smallest of windows."""
_SHARE_OF_WINDOW = 3
_NOTE = "\n[The rest was left out. Ask for less at a time.]"


def most_tokens(place: Place, wanted: int = MOST_TOKENS) -> int:
    """No more than a third of the window, however much is asked for."""
    window = place.context_length // _SHARE_OF_WINDOW if place.context_length else MOST_TOKENS
    return max(LEAST_TOKENS, min(wanted, MOST_TOKENS, window))


def bounded(text: str, tokens: int, note: str = _NOTE) -> str:
    """The beginning, if all of it is too much."""
    if len(text) <= MOST_CHARACTERS and estimate_text_tokens(text) <= tokens:
        return text
    room = max(0, tokens - estimate_text_tokens(note))
    return cut_to_tokens(text[: MOST_CHARACTERS - len(note)], room) + note


def lines_that_fit(lines: list[str], tokens: int, more: str) -> list[str]:
    """As many as there is room for. `more` is a sentence with `{}` for the number of the others."""
    room = min(tokens, MOST_CHARACTERS // 4) - estimate_text_tokens(more) - 4
    for index, line in enumerate(lines):
        room -= estimate_text_tokens(line) + 1
        if room < 0:
            return [*lines[:index], more.format(f"{len(lines) - index:,}")]
    return lines


_ID = re.compile(r"(?:c(\d{1,18})\.)?([ms])(\d{1,18})(?:-(?:(?:c(\d{1,18})\.)?m)?(\d{1,18}))?")
_AROUND = "[]()<>`'\".,;: \n\t"
_FORMS = "Ids look like `m12` (a message), `m12-m30` (a range) or `s4` (a summary)."
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Messages:
    """One message or several in a row."""

    conversation: int
    prefix: str
    """`c3.` in another conversation, else empty."""
    first: int
    last: int

    @property
    def id(self) -> str:
        return f"{self.prefix}m{self.first}" + (f"-m{self.last}" if self.last > self.first else "")


@dataclass(frozen=True, slots=True)
class Summary:
    conversation: int
    prefix: str
    node: Node

    @property
    def id(self) -> str:
        return f"{self.prefix}{self.node.id}"


Target = Messages | Summary


def conversation_here(connection: sqlite3.Connection, place: Place) -> int:
    """Raises Refused where nothing of it is stored yet."""
    here = conversations_in_reach(connection, place, everywhere=False)
    if not here:
        raise Refused("Nothing of this conversation is stored yet: all of it is still before you.")
    return next(iter(here))


def find(connection: sqlite3.Connection, place: Place, written: str) -> Target:
    """Raises Refused with a sentence for what is not understood, not there, or not for this person."""
    text = written.strip(_AROUND).lower().replace("–", "-").replace("—", "-").replace(" ", "")
    match = _ID.fullmatch(text)
    if match is None or (match[2] == "s" and match[5]) or (match[4] and match[4] != match[1]):
        raise Refused(f"`{written[:_SHOWN]}` is no id. {_FORMS} `lcm_grep` finds messages by their words.")
    here = conversation_here(connection, place)
    conversation = int(match[1]) if match[1] else here
    if conversation not in conversations_in_reach(connection, place, everywhere=conversation != here):
        raise Refused(
            f"There is no conversation `c{match[1]}` here. Leave the `c{match[1]}.` out for this one."
        )
    prefix = f"c{conversation}." if conversation != here else ""
    number = int(match[3])
    if match[2] == "s":
        return _summary(connection, place, conversation, prefix, number)
    return _messages(connection, conversation, prefix, number, int(match[5] or number))


def load(connection: sqlite3.Connection, target: Messages) -> list[Stored]:
    return messages_between(connection, target.conversation, target.first, target.last)


def _messages(
    connection: sqlite3.Connection, conversation: int, prefix: str, first: int, last: int
) -> Messages:
    first, last = min(first, last), max(first, last)
    (newest,) = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM messages WHERE conversation = ?", (conversation,)
    ).fetchone()
    if first < 1 or first > newest:
        there = f"has {prefix}m1 to {prefix}m{newest}" if newest else "has no messages yet"
        raise Refused(f"There is no {prefix}m{first}: the conversation {there}.")
    return Messages(conversation, prefix, first, min(last, newest))


def _summary(
    connection: sqlite3.Connection, place: Place, conversation: int, prefix: str, key: int
) -> Summary:
    row = connection.execute("SELECT * FROM summaries WHERE key = ?", (key,)).fetchone()
    if row is not None and row["conversation"] == conversation:
        return Summary(conversation, prefix, node(row))
    within = conversations_in_reach(connection, place, everywhere=True)
    if row is not None and row["conversation"] in within:
        raise Refused(f"s{key} is in another conversation: ask for `c{row['conversation']}.s{key}`.")
    raise Refused(
        f"There is no summary {prefix}s{key}. `lcm_describe` without an id lists those of the present context."
    )
