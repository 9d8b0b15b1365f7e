"""Embeddings: vectors of messages from a static model, and their similarity to a question.

Each token has a vector, and a text is the weighted mean of its tokens. The table is memory-mapped. Like a word, a
meaning also counts for neighbouring messages. The mean of all messages is subtracted first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from agent.fts_text import STOP_WORDS

from ..messages import EMBEDDING_BLOCK
from .exact import ALL_KEYS
from .request import SearchRequest
from .semantic import newest_blocks

Bytes = NDArray[np.int8]
Numbers = NDArray[np.float32]

DIMENSIONS = 128
"""Of 256. The model is trained so that the first dimensions carry most of the meaning."""
SCALE = 256.0
"""Unit vectors times this fit into signed bytes; rare outliers are clipped."""
_WEIGHTS = Path("weights") / "l2_supercat_256.safetensors"
_TOKENIZER = Path("tokenizers") / "l2_supercat_tokenizer_config.json"
_TENSOR = "embedding.weight"
_BYTES_AND_MARKS = 259
"""Entries of the vocabulary that are not word pieces. Word pieces follow, the most frequent first."""
_MAX_CHARACTERS = 4_000
"""Longer texts are cut: the beginning mostly says what they are about."""
_MAX_WORDS = 64
_WORD = re.compile(r"[^\W_]+")


class EmbeddingModel:
    name = f"wordllama l2_supercat {DIMENSIONS}"
    dimensions = DIMENSIONS

    def __init__(self, folder: Path) -> None:
        """Raises OSError, ValueError, KeyError or TypeError if a file is missing or damaged."""
        self._table = _map_table(folder / _WEIGHTS)
        self._tokenizer = Tokenizer.from_buffer((folder / _TOKENIZER).read_bytes())
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        rank = np.maximum(np.arange(len(self._table)), _BYTES_AND_MARKS) - (_BYTES_AND_MARKS - 59)
        self._weights = np.log(rank).astype(np.float32)

    def vectors(self, texts: Sequence[str]) -> Bytes:
        """Return one row per text. A text without words gets zeros."""
        rows = np.zeros((len(texts), DIMENSIONS), np.float32)
        for row, text in zip(rows, texts, strict=True):
            pieces = self._tokenizer.encode(_content_words(text), add_special_tokens=False).ids
            if pieces:
                table = self._table[pieces, :DIMENSIONS].astype(np.float32)
                # Not `@`: the threads of BLAS take longer to synchronise than this takes on one.
                np.einsum("i,ij->j", self._weights[pieces], table, out=row)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        scaled: Numbers = rows / np.maximum(lengths, 1e-9) * SCALE
        return np.clip(np.rint(scaled), -127, 127).astype(np.int8)


def _content_words(text: str) -> str:
    words = {word.casefold(): word for word in _WORD.findall(text[:_MAX_CHARACTERS])}
    telling = [word for folded, word in words.items() if folded not in STOP_WORDS]
    return " ".join((telling or list(words.values()))[:_MAX_WORDS])


def _map_table(path: Path) -> NDArray[np.float16]:
    """Map the table of a safetensors file: length of the header, header as JSON, numbers."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size:
            raise ValueError(f"{path.name} is not a safetensors file.")
        tensor = json.loads(file.read(length))[_TENSOR]
    if tensor["dtype"] != "F16" or tensor["shape"][1] < DIMENSIONS:
        raise ValueError(f"{path.name} holds {tensor['dtype']} {tensor['shape']}.")
    begin = 8 + length + tensor["data_offsets"][0]
    return np.memmap(path, np.float16, "r", offset=begin, shape=tuple(tensor["shape"]))


MAX_BLOCKS = 400
"""The newest 102,400 messages. Older messages are found by their words."""
_BATCH = 4_096
_MEAN_PRIOR = 50
"""Zero vectors added to the mean, because few messages have no meaningful mean."""


@dataclass(frozen=True, slots=True)
class Similarities:
    """By conversation: the number of its first message, and the similarity of that and each following message."""

    shares: dict[int, tuple[int, Numbers]]
    nearest: float
    """Cosine of the most similar message by itself. Unrelated messages rarely reach 0.4."""

    def of(self, conversation: int, seq: int) -> float:
        """Return 0 for messages that are dissimilar or were not compared."""
        first, shares = self.shares.get(conversation, (0, _EMPTY))
        return max(0.0, float(shares[seq - first])) if 0 <= seq - first < len(shares) else 0.0

    def best(self, most: int) -> list[tuple[int, int]]:
        places: list[tuple[float, int, int]] = []
        for conversation, (first, shares) in self.shares.items():
            chosen = np.argpartition(-shares, most)[:most] if len(shares) > most else np.arange(len(shares))
            places += [(float(shares[i]), conversation, first + int(i)) for i in chosen if shares[i] > 0]
        places.sort(reverse=True)
        return [(conversation, seq) for _, conversation, seq in places[:most]]


_EMPTY: Numbers = np.zeros(0, np.float32)


def find_similar(
    connection: Connection,
    request: SearchRequest,
    question: str,
    model: EmbeddingModel,
    bounds: tuple[int, int],
    *,
    before: Sequence[float],
    after: Sequence[float],
) -> Similarities:
    """Compare messages within the key bounds with the question.

    Messages in `request.without` do not count; `before` and `after` are the shares of neighbouring messages.
    """
    (asked,) = model.vectors([question]).astype(np.float32)
    read = _load_vectors(connection, request.conversations, model)
    left_out = connection.execute(
        "SELECT conversation, seq FROM messages WHERE key IN (SELECT value FROM json_each(?))",
        (json.dumps(list(request.without)),),
    )
    for conversation, seq in left_out:
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
    connection: Connection, conversations: Sequence[int], model: EmbeddingModel
) -> dict[int, tuple[int, Bytes]]:
    """Return the number of the first message and one row per message. Missing embeddings are zeros."""
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


def _mean(all_rows: Sequence[Bytes]) -> Numbers:
    total = np.zeros(DIMENSIONS, np.int64)
    for rows in all_rows:
        total += rows.sum(axis=0, dtype=np.int64)
    return (total / (sum(map(len, all_rows)) + _MEAN_PRIOR)).astype(np.float32)


def _cosines(rows: Bytes, asked: Numbers, mean: Numbers) -> Numbers:
    """Return cosines from -1 to 1; 0 for zero vectors."""
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
    """Multiply without BLAS: its threads take longer to synchronise than this takes on one."""
    product: Numbers = np.einsum("ij,j->i", rows, vector)
    return product


def _within(
    connection: Connection, conversation: int, first: int, near: Numbers, bounds: tuple[int, int]
) -> Numbers:
    lowest, highest = connection.execute(
        "SELECT min(seq), max(seq) FROM messages WHERE conversation = ? AND key BETWEEN ? AND ?",
        (conversation, *bounds),
    ).fetchone()
    if lowest is None:
        return np.zeros_like(near)
    numbers = np.arange(first, first + len(near))
    return np.where((numbers >= lowest) & (numbers <= highest), near, 0.0).astype(np.float32)
