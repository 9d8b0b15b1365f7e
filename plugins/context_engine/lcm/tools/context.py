"""Context of a tool call: the conversation, visible ids, size limits, and refusals."""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.compression.summariser import Summarize
from agent.tokens import cut_to_tokens, estimate_text_tokens

from ..database import Database
from ..graph import Node, node_from_row
from ..search.semantic import SemanticSearch, update_embeddings

if TYPE_CHECKING:
    from ..search.embeddings import EmbeddingModel


class ToolRefusal(Exception):
    """A call that cannot be answered. The text tells the model what to do next."""


def error_json(sentence: str) -> str:
    return json.dumps({"error": sentence}, ensure_ascii=False)


_MAX_EMBEDDED = 2_048
"""Messages that are embedded before a search: about a sixth of a second."""


@dataclass(frozen=True, slots=True)
class CallContext:
    database: Database
    conversation_id: str
    person: str
    """The conversation's person; empty if the host does not say."""
    session_id: str
    context_length: int
    threshold_tokens: int
    last_prompt_tokens: int
    ask: Summarize
    """Calls the auxiliary model. Use `call_model`, which raises only ModelError."""
    meaning: SemanticSearch | None = None
    """Semantic search; None if unknown."""

    def model(self) -> EmbeddingModel | None:
        """Return the embedding model after embedding new messages. None: search by words only."""
        model = self.meaning.model() if self.meaning else None
        if model:
            update_embeddings(self.database, self.conversation_id, model, _MAX_EMBEDDED)
        return model


def visible_conversations(
    connection: sqlite3.Connection, call: CallContext, *, everywhere: bool
) -> dict[int, str]:
    """Return key and id of this conversation, and with `everywhere` of the same person's others."""
    rows = connection.execute(
        "SELECT key, id FROM conversations WHERE id = :here OR (:everywhere AND :person <> '' AND person = :person)",
        {"here": call.conversation_id, "everywhere": everywhere, "person": call.person},
    )
    return {row["key"]: row["id"] for row in rows}


def current_turn_keys(connection: sqlite3.Connection, call: CallContext) -> frozenset[int]:
    """Return the keys of the newest user message and of the messages after it."""
    rows = connection.execute(
        "SELECT messages.key, role FROM context_items JOIN sessions ON sessions.key = session "
        "JOIN conversations ON conversations.key = sessions.conversation JOIN messages ON messages.key = message "
        "WHERE conversations.id = ? AND sessions.id = ? ORDER BY position DESC",
        (call.conversation_id, call.session_id),
    )
    turn: list[int] = []
    for key, role in rows:
        turn.append(key)
        if role == "user":
            return frozenset(turn)
    return frozenset()


MAX_CHARACTERS = 11_500
"""The host truncates results above 12,000 characters. Verbatim text must not be truncated, so a page ends before
that."""

MAX_TOKENS = 12_000
MIN_TOKENS = 500
"""Room for a header and some text, even in the smallest window."""
_SHARE_OF_WINDOW = 3
_NOTE = "\n[The rest was left out. Ask for less at a time.]"


def result_tokens(call: CallContext, wanted: int = MAX_TOKENS) -> int:
    """Limit a result to a third of the window."""
    window = call.context_length // _SHARE_OF_WINDOW if call.context_length else MAX_TOKENS
    return max(MIN_TOKENS, min(wanted, MAX_TOKENS, window))


def truncate_result(text: str, tokens: int, note: str = _NOTE) -> str:
    """Truncate the end, with a note."""
    if len(text) <= MAX_CHARACTERS and estimate_text_tokens(text) <= tokens:
        return text
    room = max(0, tokens - estimate_text_tokens(note))
    return cut_to_tokens(text[: MAX_CHARACTERS - len(note)], room) + note


def fit_lines(lines: list[str], tokens: int, more: str) -> list[str]:
    """Return the lines that fit. `more` is a sentence with `{}` for the number of the others."""
    room = min(tokens, MAX_CHARACTERS // 4) - estimate_text_tokens(more) - 4
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
class MessageRange:
    """One message or several consecutive ones."""

    conversation: int
    prefix: str
    """`c3.` for another conversation, else empty."""
    first: int
    last: int

    @property
    def id(self) -> str:
        return f"{self.prefix}m{self.first}" + (f"-m{self.last}" if self.last > self.first else "")


@dataclass(frozen=True, slots=True)
class SummaryTarget:
    conversation: int
    prefix: str
    node: Node

    @property
    def id(self) -> str:
        return f"{self.prefix}{self.node.id}"


Target = MessageRange | SummaryTarget


def current_conversation(connection: sqlite3.Connection, call: CallContext) -> int:
    """Raises ToolRefusal if nothing of the conversation is stored."""
    here = visible_conversations(connection, call, everywhere=False)
    if not here:
        raise ToolRefusal("Nothing of this conversation is stored yet: all of it is still in your context.")
    return next(iter(here))


def resolve_id(connection: sqlite3.Connection, call: CallContext, written: str) -> Target:
    """Resolve `m12`, `m12-m30`, `s4` or `c3.m12`. Raises ToolRefusal.

    A conversation of another person is refused like one that does not exist.
    """
    text = written.strip(_AROUND).lower().replace("–", "-").replace("—", "-").replace(" ", "")
    match = _ID.fullmatch(text)
    if match is None or (match[2] == "s" and match[5]) or (match[4] and match[4] != match[1]):
        raise ToolRefusal(
            f"`{written[:_SHOWN]}` is not an id. {_FORMS} `lcm_grep` finds messages by their words."
        )
    here = current_conversation(connection, call)
    conversation = int(match[1]) if match[1] else here
    if conversation not in visible_conversations(connection, call, everywhere=conversation != here):
        raise ToolRefusal(
            f"There is no conversation `c{match[1]}` here. Leave the `c{match[1]}.` out for this one."
        )
    prefix = f"c{conversation}." if conversation != here else ""
    number = int(match[3])
    if match[2] == "s":
        return _summary(connection, call, conversation, prefix, number)
    return _messages(connection, conversation, prefix, number, int(match[5] or number))


def _messages(
    connection: sqlite3.Connection, conversation: int, prefix: str, first: int, last: int
) -> MessageRange:
    first, last = min(first, last), max(first, last)
    (newest,) = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM messages WHERE conversation = ?", (conversation,)
    ).fetchone()
    if first < 1 or first > newest:
        there = f"has {prefix}m1 to {prefix}m{newest}" if newest else "has no messages yet"
        raise ToolRefusal(f"There is no {prefix}m{first}: the conversation {there}.")
    return MessageRange(conversation, prefix, first, min(last, newest))


def _summary(
    connection: sqlite3.Connection, call: CallContext, conversation: int, prefix: str, key: int
) -> SummaryTarget:
    row = connection.execute("SELECT * FROM summaries WHERE key = ?", (key,)).fetchone()
    if row is not None and row["conversation"] == conversation:
        return SummaryTarget(conversation, prefix, node_from_row(row))
    within = visible_conversations(connection, call, everywhere=True)
    if row is not None and row["conversation"] in within:
        raise ToolRefusal(f"s{key} is in another conversation: ask for `c{row['conversation']}.s{key}`.")
    raise ToolRefusal(
        f"There is no summary {prefix}s{key}. `lcm_describe` without an id lists those of the present context."
    )
