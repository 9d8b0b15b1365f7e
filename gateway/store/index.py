"""The full-text index. It follows the messages at a distance, so that writing never waits for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

from agent.errors import SearchIndexDamaged
from agent.fts_text import indexable
from agent.untrusted import without_marks

STEP_MESSAGES = 64
STEP_CHARACTERS = 50_000
"""A step stops at the first of these. It is the longest that a writer can be held up."""

MERGE_PAGES = 16
"""How much of the index a step tidies up, so that the number of its segments stays small."""

MAX_CHARACTERS = 100_000
"""A longer message is found by its beginning only: indexing more of it would hold up the writer."""

TOKENIZER = "porter unicode61 remove_diacritics 2"


class Entry(NamedTuple):
    """A message as the index takes it."""

    seq: int
    role: str
    text: str
    conversation_id: str
    person: str


class Progress(NamedTuple):
    indexed: int
    stored: int


def progress(connection: sqlite3.Connection) -> Progress:
    row = connection.execute(
        "SELECT seq, coalesce((SELECT max(seq) FROM messages), 0) FROM index_progress"
    ).fetchone()
    if row is None:
        raise SearchIndexDamaged("(how far it reaches is not known)")
    return Progress(*row)


def advance(connection: sqlite3.Connection) -> int:
    """One small step inside the writer's transaction; returns how far the index reaches now.

    The index and the note of its progress are committed together: after a crash it goes on where it was.
    """
    reached, stored = progress(connection)
    characters = 0
    for count, entry in enumerate(entries_after(connection, reached), start=1):
        add(connection, entry)
        characters += len(entry.text)
        if count == STEP_MESSAGES or characters >= STEP_CHARACTERS:
            reached = entry.seq
            break
    else:
        reached = stored
    connection.execute("UPDATE index_progress SET seq = ? WHERE seq < ?", (reached, reached))
    connection.execute("INSERT INTO message_index (message_index, rank) VALUES ('merge', ?)", (MERGE_PAGES,))
    return reached


def entries_after(connection: sqlite3.Connection, seq: int) -> Iterator[Entry]:
    """What was said since then."""
    rows = connection.execute(
        """
        SELECT messages.seq, role, content, conversation_id, person
        FROM messages
        JOIN sessions ON sessions.id = messages.session_id
        JOIN conversations ON conversations.id = sessions.conversation_id
        WHERE messages.seq > ? AND kind = 'said'
        ORDER BY messages.seq
        """,
        (seq,),
    )
    return map(Entry._make, rows)


def add(connection: sqlite3.Connection, entry: Entry) -> None:
    text = indexable(searched_text(entry))
    said, tool = (None, text) if entry.role == "tool" else (text, None)
    scope = f"{person_token(entry.person)} {conversation_token(entry.conversation_id)}"
    connection.execute(
        "INSERT INTO message_index (rowid, scope, said, tool) VALUES (?, ?, ?, ?)",
        (entry.seq, scope, said, tool),
    )


def searched_text(entry: Entry) -> str:
    """Without the marks around others' words: all of them say the same, and nobody looks for that."""
    return without_marks(entry.text)[:MAX_CHARACTERS]


def create(connection: sqlite3.Connection) -> None:
    """As the schema has it."""
    columns = f"scope, said, tool, content = '', tokenize = '{TOKENIZER}'"
    connection.execute(f"CREATE VIRTUAL TABLE message_index USING fts5 ({columns})")


def index_in_memory(entries: Iterable[Entry]) -> sqlite3.Connection:
    """An index of the same kind for a handful of messages, gone when it is closed."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create(connection)
    connection.execute("BEGIN")
    for entry in entries:
        add(connection, entry)
    connection.execute("COMMIT")
    return connection


def person_token(person: str) -> str:
    return _token(b"person", person)


def conversation_token(conversation_id: str) -> str:
    return _token(b"conversation", conversation_id)


def _token(kind: bytes, name: str) -> str:
    """A number stands for the name: the tokenizer would take a name apart and look for its stem."""
    digest = blake2b(name.encode(), digest_size=8, person=kind).digest()
    return str(int.from_bytes(digest, "big"))
