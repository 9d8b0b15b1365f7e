# ruff: noqa: S608 - only a constant condition is put into the SQL
"""Semantic search: "boat" finds messages about sailing. Needs the extra `semantic`.

Embeddings are made after a compaction and before a search, never while a message is stored. The vectors come from the
files of the package `wordllama`; its code is not run, and nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Literal, get_args

import structlog

from agent.messages import ChatDict, call_of, text_of

from ..database import DATABASE_ERRORS, Database
from ..messages import EMBEDDING_BLOCK, last_seq, message_from_row
from .request import without_label

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
    """Whether and with which model to search by meaning."""

    wanted: SemanticMode = "off"

    def model(self) -> EmbeddingModel | None:
        """Load the model at the first call. None: search by words only."""
        return None if self.wanted == "off" else _load_model()

    @property
    def unavailable_reason(self) -> str:
        """Empty if a model is available."""
        if self.wanted == "off":
            return "`context.options.semantic` is off"
        if not is_installed():
            return f"to search by meaning, too: {INSTALL}"
        return "" if self.model() else "the embedding model cannot be read, see the log"


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
    except (OSError, ValueError, KeyError, TypeError):  # a damaged file; search by words still works
        log.warning("lcm.no_meaning", folder=str(folder), exc_info=True)
        return None


def _package_folder() -> Path | None:
    spec = find_spec(_PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def update_embeddings(database: Database, conversation_id: str, model: EmbeddingModel, most: int) -> None:
    """Embed up to `most` messages, the newest first. On database errors the next call tries again."""
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
    """Embed block by block, each in its own transaction."""
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


def newest_blocks(
    connection: Connection, conversation: int, model: EmbeddingModel, most: int
) -> list[tuple[int, int, bytes]]:
    """Return number, message count and vectors of each block, the newest first."""
    rows = connection.execute(
        f"SELECT block, messages, vectors FROM meanings WHERE {_IS_VALID} ORDER BY block DESC LIMIT ?",
        (conversation, model.name, model.dimensions, most),
    )
    return list(map(tuple, rows))


_IS_VALID = "conversation = ? AND model = ? AND length(vectors) = messages * ?"
"""A block of another model or of the wrong size is ignored."""


def _missing(connection: Connection, conversation: int, model: EmbeddingModel) -> Iterator[tuple[int, int]]:
    """Yield blocks that are missing or incomplete with their message count, the newest first."""
    last = last_seq(connection, conversation)
    rows = connection.execute(
        f"SELECT block, messages FROM meanings WHERE {_IS_VALID}",
        (conversation, model.name, model.dimensions),
    )
    there = dict(map(tuple, rows))
    for block in range((last - 1) // EMBEDDING_BLOCK, -1, -1):
        count = min(EMBEDDING_BLOCK, last - block * EMBEDDING_BLOCK)
        if there.get(block, 0) < count:
            yield block, count


def _texts(connection: Connection, conversation: int, block: int) -> list[str]:
    """Return the texts of a block. Echoes are empty."""
    rows = connection.execute(
        "SELECT * FROM messages WHERE conversation = ? AND seq BETWEEN ? AND ? ORDER BY seq",
        (conversation, block * EMBEDDING_BLOCK + 1, (block + 1) * EMBEDDING_BLOCK),
    )
    return ["" if row["echo"] else _embedded_text(message_from_row(row).chat) for row in rows]


def _embedded_text(chat: ChatDict) -> str:
    calls = (" ".join(call_of(call)) for call in chat.get("tool_calls") or ())
    return "\n".join(filter(None, (without_label(text_of(chat)), *calls)))
