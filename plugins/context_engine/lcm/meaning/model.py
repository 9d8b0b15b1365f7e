"""A static model: each piece of a word has a vector, and a text is the mean of its pieces.

So it takes a twentieth of a millisecond for a message and no memory to speak of, for the table is mapped, not read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from agent.fts_text import STOP_WORDS

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
_LONGEST = 4_000
"""Characters. What a longer text is about mostly stands at its beginning."""
_MOST_WORDS = 64
_WORD = re.compile(r"[^\W_]+")


class Model:
    name = f"wordllama l2_supercat {DIMENSIONS}"
    dimensions = DIMENSIONS

    def __init__(self, folder: Path) -> None:
        """Raises whatever is wrong with the files."""
        self._table = _mapped(folder / _WEIGHTS)
        self._tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        rank = np.maximum(np.arange(len(self._table)), _BYTES_AND_MARKS) - (_BYTES_AND_MARKS - 59)
        self._weights = np.log(rank).astype(np.float32)

    def vectors(self, texts: Sequence[str]) -> Bytes:
        """One row for each. A text without words has zeros."""
        rows = np.zeros((len(texts), DIMENSIONS), np.float32)
        for row, text in zip(rows, texts, strict=True):
            pieces = self._tokenizer.encode(_content(text), add_special_tokens=False).ids
            if pieces:
                table = self._table[pieces, :DIMENSIONS].astype(np.float32)
                # Not `@`: the threads of BLAS take longer to wait for each other than this takes one.
                np.einsum("i,ij->j", self._weights[pieces], table, out=row)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        scaled: Numbers = rows / np.maximum(lengths, 1e-9) * SCALE
        return np.clip(np.rint(scaled), -127, 127).astype(np.int8)


def _content(text: str) -> str:
    """Its words, each once, without those that say nothing."""
    words = {word.casefold(): word for word in _WORD.findall(text[:_LONGEST])}
    telling = [word for folded, word in words.items() if folded not in STOP_WORDS]
    return " ".join((telling or list(words.values()))[:_MOST_WORDS])


def _mapped(path: Path) -> NDArray[np.float16]:
    """The table of a safetensors file: the length of its heading, the heading as JSON, numbers."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        tensor = json.loads(file.read(length))[_TENSOR]
    if tensor["dtype"] != "F16" or tensor["shape"][1] < DIMENSIONS:
        raise ValueError(f"{path.name} holds {tensor['dtype']} {tensor['shape']}.")
    begin = 8 + length + tensor["data_offsets"][0]
    return np.memmap(path, np.float16, "r", offset=begin, shape=tuple(tensor["shape"]))
