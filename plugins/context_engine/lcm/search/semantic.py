# ruff: noqa: S608 - only a constant condition is put into the SQL
"""Searching by meaning, where the extra `semantic` is installed: "boat" finds what was said about sailing.

The vectors come from the package `wordllama`, which carries them; none of its code is run, and nothing is ever fetched.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import structlog

from agent.messages import ChatDict, call_of, text_of

from ..database import DATABASE_ERRORS, Database
from ..messages import EMBEDDING_BLOCK, message_from_row
from .filters import without_label

if TYPE_CHECKING:
    from .embeddings import EmbeddingModel
log = structlog.get_logger(__name__)

SemanticMode = Literal["auto", "on", "off"]
SEMANTIC_MODES: tuple[SemanticMode, ...] = get_args(SemanticMode)
INSTALL = "pip install -e '.[semantic]'"
_REQUIRED = ("numpy", "tokenizers")
_PACKAGE = "wordllama"


@dataclass(frozen=True, slots=True)
class SemanticSearch:
    """Whether messages are searched by meaning, too."""

    wanted: SemanticMode = "off"

    def model(self) -> EmbeddingModel | None:
        """Loaded when it is first asked for. None: words have to do."""
        return None if self.wanted == "off" else _load_model()

    @property
    def unavailable_reason(self) -> str:
        """Empty where there is a model."""
        if self.wanted == "off":
            return "`context.options.semantic` is off"
        if not is_installed():
            return f"for meaning, too: {INSTALL}"
        return "" if self.model() else "what is installed for meaning cannot be read, see the log"


@cache
def is_installed() -> bool:
    return _package_folder() is not None and all(find_spec(name) for name in _REQUIRED)


@cache
def _load_model() -> EmbeddingModel | None:
    folder = _package_folder()
    if folder is None or not is_installed():
        return None
    from .embeddings import EmbeddingModel  # noqa: PLC0415 - numpy is heavy, and may not be there

    try:
        return EmbeddingModel(folder)
    except Exception:  # whatever is wrong with files that others made, words can still be searched
        log.warning("lcm.no_meaning", folder=str(folder), exc_info=True)
        return None


def _package_folder() -> Path | None:
    """Where the package lies. It is found without being run."""
    spec = find_spec(_PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def update_embeddings(database: Database, conversation_id: str, model: EmbeddingModel, most: int) -> None:
    """Makes what is missing, the newest first, up to so many messages. What cannot be written now is at the next
    chance, and is found by its words until then."""
    try:
        with database.reading() as connection:
            row = connection.execute(
                "SELECT key FROM conversations WHERE id = ?", (conversation_id,)
            ).fetchone()
        if row:
            _embed_missing(database, row["key"], model, most)
    except DATABASE_ERRORS as error:
        log.warning("lcm.meaning_not_stored", reason=str(error))


def _embed_missing(database: Database, conversation: int, model: EmbeddingModel, most: int) -> None:
    """Each block is a transaction of its own, so whoever is killed here loses nothing but the time."""
    with database.reading() as connection:
        missing = list(_missing(connection, conversation, model))
    for block, count in missing:
        if most <= 0:
            return
        most -= count
        with database.reading() as connection:
            texts = _texts(connection, conversation, block)
        vectors = model.vectors(texts).tobytes()
        with database.writing() as connection:
            connection.execute(
                "INSERT INTO meanings (conversation, block, model, messages, vectors) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (conversation, block) DO UPDATE "
                "SET model = excluded.model, messages = excluded.messages, vectors = excluded.vectors "
                "WHERE meanings.model <> excluded.model OR meanings.messages < excluded.messages "
                "OR length(meanings.vectors) < length(excluded.vectors)",
                (conversation, block, model.name, len(texts), vectors),
            )


def count_embedded(connection: sqlite3.Connection, conversation_id: str) -> int:
    """How many messages of the conversation have a vector, be it of an earlier model."""
    (count,) = connection.execute(
        "SELECT coalesce(sum(messages), 0) FROM meanings JOIN conversations ON conversations.key = conversation "
        "WHERE conversations.id = ?",
        (conversation_id,),
    ).fetchone()
    return int(count)


def newest_blocks(
    connection: sqlite3.Connection, conversation: int, model: EmbeddingModel, most: int
) -> list[tuple[int, int, bytes]]:
    """Number, messages and vectors of each, the newest first."""
    rows = connection.execute(
        f"SELECT block, messages, vectors FROM meanings WHERE {_IS_VALID} ORDER BY block DESC LIMIT ?",
        (*_valid_parameters(conversation, model), most),
    )
    return list(map(tuple, rows))


_IS_VALID = "conversation = ? AND model = ? AND length(vectors) = messages * ?"
"""A block of an earlier model, or of the wrong size, is as good as none."""


def _valid_parameters(conversation: int, model: EmbeddingModel) -> tuple[int, str, int]:
    return conversation, model.name, model.dimensions


def _missing(
    connection: sqlite3.Connection, conversation: int, model: EmbeddingModel
) -> Iterator[tuple[int, int]]:
    """Blocks that are not there as they should be, with how many messages they have to get; the newest first."""
    (last,) = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM messages WHERE conversation = ?", (conversation,)
    ).fetchone()
    rows = connection.execute(
        f"SELECT block, messages FROM meanings WHERE {_IS_VALID}", _valid_parameters(conversation, model)
    )
    there = dict(map(tuple, rows))
    for block in range((last - 1) // EMBEDDING_BLOCK, -1, -1):
        count = min(EMBEDDING_BLOCK, last - block * EMBEDDING_BLOCK)
        if there.get(block, 0) < count:
            yield block, count


def _texts(connection: sqlite3.Connection, conversation: int, block: int) -> list[str]:
    """What the messages of a block say. A search of ours and what it found say nothing of their own."""
    rows = connection.execute(
        "SELECT * FROM messages WHERE conversation = ? AND seq BETWEEN ? AND ? ORDER BY seq",
        (conversation, block * EMBEDDING_BLOCK + 1, (block + 1) * EMBEDDING_BLOCK),
    )
    return ["" if row["echo"] else _embedded_text(message_from_row(row).chat) for row in rows]


def _embedded_text(chat: ChatDict) -> str:
    calls = (" ".join(call_of(call)) for call in chat.get("tool_calls") or ())
    return "\n".join(filter(None, (without_label(text_of(chat)), *calls)))
