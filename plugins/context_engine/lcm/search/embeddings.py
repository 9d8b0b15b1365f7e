# ruff: noqa: S608 - only question marks and a direction are put into the SQL
"""A static model: each piece of a word has a vector, and a text is the mean of its pieces.

So it takes a twentieth of a millisecond for a message and no memory to speak of, for the table is mapped, not read.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from agent.fts_text import STOP_WORDS

from ..messages import EMBEDDING_BLOCK
from .exact import ALL_KEYS
from .semantic import newest_blocks

Bytes = NDArray[np.int8]
Numbers = NDArray[np.float32]

DIMENSIONS = 128
"""Of 256. The model was made so that the first ones say most; the others bring nothing here."""
SCALE = 256.0
"""A vector of length 1, times this, fits into signed bytes; the rare number that does not is cut."""
_WEIGHTS = Path("weights") / "l2_supercat_256.safetensors"
_TOKENIZER = Path("tokenizers") / "l2_supercat_tokenizer_config.json"
_TENSOR = "embedding.weight"
_BYTES_AND_MARKS = 259
"""So many entries of the vocabulary are no pieces of words. The pieces behind them are in the order in which they were
learnt, the most frequent first."""
_MAX_CHARACTERS = 4_000
"""Characters. What a longer text is about mostly stands at its beginning."""
_MAX_WORDS = 64
_WORD = re.compile(r"[^\W_]+")


class EmbeddingModel:
    name = f"wordllama l2_supercat {DIMENSIONS}"
    dimensions = DIMENSIONS

    def __init__(self, folder: Path) -> None:
        """Raises whatever is wrong with the files."""
        self._table = _map_table(folder / _WEIGHTS)
        self._tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        rank = np.maximum(np.arange(len(self._table)), _BYTES_AND_MARKS) - (_BYTES_AND_MARKS - 59)
        self._weights = np.log(rank).astype(np.float32)

    def vectors(self, texts: Sequence[str]) -> Bytes:
        """One row for each. A text without words has zeros."""
        rows = np.zeros((len(texts), DIMENSIONS), np.float32)
        for row, text in zip(rows, texts, strict=True):
            pieces = self._tokenizer.encode(_content_words(text), add_special_tokens=False).ids
            if pieces:
                table = self._table[pieces, :DIMENSIONS].astype(np.float32)
                # Not `@`: the threads of BLAS take longer to wait for each other than this takes one.
                np.einsum("i,ij->j", self._weights[pieces], table, out=row)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        scaled: Numbers = rows / np.maximum(lengths, 1e-9) * SCALE
        return np.clip(np.rint(scaled), -127, 127).astype(np.int8)


def _content_words(text: str) -> str:
    """Its words, each once, without those that say nothing."""
    words = {word.casefold(): word for word in _WORD.findall(text[:_MAX_CHARACTERS])}
    telling = [word for folded, word in words.items() if folded not in STOP_WORDS]
    return " ".join((telling or list(words.values()))[:_MAX_WORDS])


def _map_table(path: Path) -> NDArray[np.float16]:
    """The table of a safetensors file: the length of its heading, the heading as JSON, numbers."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        tensor = json.loads(file.read(length))[_TENSOR]
    if tensor["dtype"] != "F16" or tensor["shape"][1] < DIMENSIONS:
        raise ValueError(f"{path.name} holds {tensor['dtype']} {tensor['shape']}.")
    begin = 8 + length + tensor["data_offsets"][0]
    return np.memmap(path, np.float16, "r", offset=begin, shape=tuple(tensor["shape"]))


MAX_BLOCKS = 400
"""The newest 102,400 messages. Older ones are found by their words."""
_BATCH = 4_096
_MEAN_PRIOR = 50
"""Few messages have no mean to speak of: it is taken as if there were so many more that have none."""


@dataclass(frozen=True, slots=True)
class Similarities:
    """By conversation: the number of the first message that was looked at, and how near it and those behind it are."""

    shares: dict[int, tuple[int, Numbers]]
    nearest: float
    """The cosine of the message that is nearest by itself. Hardly anything that has nothing to do with it has 0.4."""

    def of(self, conversation: int, seq: int) -> float:
        """0 for what is not near, or was not looked at."""
        first, shares = self.shares.get(conversation, (0, _EMPTY))
        return max(0.0, float(shares[seq - first])) if 0 <= seq - first < len(shares) else 0.0

    def best(self, most: int) -> list[tuple[int, int]]:
        """Conversation and number of the nearest messages."""
        places: list[tuple[float, int, int]] = []
        for conversation, (first, shares) in self.shares.items():
            chosen = np.argpartition(-shares, most)[:most] if len(shares) > most else np.arange(len(shares))
            places += [(float(shares[i]), conversation, first + int(i)) for i in chosen if shares[i] > 0]
        places.sort(reverse=True)
        return [(conversation, seq) for _, conversation, seq in places[:most]]


_EMPTY: Numbers = np.zeros(0, np.float32)


def find_similar(
    connection: sqlite3.Connection,
    conversations: Sequence[int],
    question: str,
    model: EmbeddingModel,
    *,
    bounds: tuple[int, int],
    without: AbstractSet[int],
    before: Sequence[float],
    after: Sequence[float],
) -> Similarities:
    """Of messages with keys within the bounds. Those in `without` say nothing; `before` and `after` are the shares of
    the messages around one."""
    (asked,) = model.vectors([question]).astype(np.float32)
    read = _load_vectors(connection, conversations, model)
    for conversation, seq in _places(connection, without):
        first, rows = read.get(conversation, (0, None))
        if rows is not None and 0 <= seq - first < len(rows):
            rows[seq - first] = 0
    mean = _mean([rows for _, rows in read.values()])
    kernel = np.array([*reversed(after), 1.0, *before], np.float32)
    shares: dict[int, tuple[int, Numbers]] = {}
    nearest = 0.0
    for conversation, (first, rows) in read.items():
        own = _cosines(rows, asked, mean)
        nearest = max(nearest, float(own.max()))
        near = np.convolve(own, kernel)[len(after) : len(after) + len(rows)]
        if bounds != ALL_KEYS:
            near = _within(connection, conversation, first, near, bounds)
        shares[conversation] = (first, near)
    return Similarities(shares, nearest)


def _load_vectors(
    connection: sqlite3.Connection, conversations: Sequence[int], model: EmbeddingModel
) -> dict[int, tuple[int, Bytes]]:
    """The number of the first message, and a row for it and each one behind it. What is not made yet is zeros."""
    read: dict[int, tuple[int, Bytes]] = {}
    left = MAX_BLOCKS
    for conversation in conversations:
        blocks = newest_blocks(connection, conversation, model, left)
        if not blocks:
            continue
        left -= len(blocks)
        newest, oldest = blocks[0], blocks[-1]
        rows = np.zeros(((newest[0] - oldest[0]) * EMBEDDING_BLOCK + newest[1], DIMENSIONS), np.int8)
        for block, count, vectors in blocks:
            start = (block - oldest[0]) * EMBEDDING_BLOCK
            rows[start : start + count] = np.frombuffer(vectors, np.int8).reshape(count, DIMENSIONS)
        read[conversation] = (oldest[0] * EMBEDDING_BLOCK + 1, rows)
        if left <= 0:
            break
    return read


def _places(connection: sqlite3.Connection, keys: AbstractSet[int]) -> list[tuple[int, int]]:
    rows = connection.execute(
        f"SELECT conversation, seq FROM messages WHERE key IN ({', '.join('?' * len(keys))})", tuple(keys)
    )
    return list(map(tuple, rows))


def _mean(all_rows: Sequence[Bytes]) -> Numbers:
    total = np.zeros(DIMENSIONS, np.int64)
    for rows in all_rows:
        total += rows.sum(axis=0, dtype=np.int64)
    return (total / (sum(map(len, all_rows)) + _MEAN_PRIOR)).astype(np.float32)


def _cosines(rows: Bytes, asked: Numbers, mean: Numbers) -> Numbers:
    """Between -1 and 1; 0 for what says nothing."""
    wanted = asked - mean
    wanted /= max(1e-6, float(np.linalg.norm(wanted)))
    cosines = np.zeros(len(rows), np.float32)
    for start in range(0, len(rows), _BATCH):
        some = rows[start : start + _BATCH].astype(np.float32)
        squares = np.einsum("ij,ij->i", some, some)
        lengths = np.sqrt(np.maximum(1.0, squares - 2 * _dot(some, mean) + mean @ mean))
        near = (_dot(some, wanted) - mean @ wanted) / lengths
        cosines[start : start + _BATCH] = np.where(squares > 0, near, 0.0)
    return cosines


def _dot(rows: Numbers, vector: Numbers) -> Numbers:
    """Without BLAS, whose threads take longer to wait for each other than all of this takes one."""
    product: Numbers = np.einsum("ij,j->i", rows, vector)
    return product


def _within(
    connection: sqlite3.Connection, conversation: int, first: int, near: Numbers, bounds: tuple[int, int]
) -> Numbers:
    """Without what lies outside."""
    ends = [
        connection.execute(
            "SELECT seq FROM messages WHERE conversation = ? AND key BETWEEN ? AND ? "
            f"ORDER BY seq {direction} LIMIT 1",
            (conversation, *bounds),
        ).fetchone()
        for direction in ("ASC", "DESC")
    ]
    if ends[0] is None:
        return np.zeros_like(near)
    numbers = np.arange(first, first + len(near))
    return np.where((numbers >= ends[0][0]) & (numbers <= ends[1][0]), near, 0.0).astype(np.float32)
