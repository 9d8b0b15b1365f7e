"""Originals that may hold the answer to a question, and how a model gets to read them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.compression.prompt import record_of
from agent.compression.truncate import fair_cap
from agent.fts_text import parse_query
from agent.tokens import cut_to_tokens, estimate_text_tokens

from ..messages import Stored
from ..report import moment
from .expand import messages_of
from .ids import Target

_LEAST_OF_ONE = 40
_MOST_READ = 5_000
"""Messages of one summary or range that are looked through."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A message to be read for an answer."""

    id: str
    """With `c3.` in front where it is from another conversation."""
    message: Stored


def passages_of(connection: sqlite3.Connection, targets: Iterable[Target]) -> list[Passage]:
    """All messages beneath, each once, in order."""
    found: dict[str, Passage] = {}
    for target in targets:
        for number, message in enumerate(messages_of(connection, target)):
            if number == _MOST_READ:
                break
            name = f"{target.prefix}{message.id}"
            found.setdefault(name, Passage(name, message))
    return list(found.values())


def most_telling(passages: Sequence[Passage], question: str, tokens: int) -> list[Passage]:
    """As many as fit, those first that share most words with the question. They stay in their order."""
    sizes = [min(passage.message.tokens, tokens // 4) + 10 for passage in passages]
    if sum(sizes) <= tokens:
        return list(passages)
    words = {word.casefold() for word in parse_query(question).words}
    order = sorted(range(len(passages)), key=lambda index: (-_shared(passages[index], words), index))
    kept: set[int] = set()
    for index in order:
        if sizes[index] <= tokens:
            tokens -= sizes[index]
            kept.add(index)
    return [passage for index, passage in enumerate(passages) if index in kept]


def record(passages: Sequence[Passage], tokens: int) -> str:
    """One block for each: its id and who said it at the start of every line, so that no text passes for another's."""
    blocks = ["\n".join(_lines(passage)) for passage in passages]
    cap = fair_cap([estimate_text_tokens(block) for block in blocks], tokens, _LEAST_OF_ONE)
    return "\n".join(
        _cut(passage, block, cap) for passage, block in zip(passages, blocks, strict=True) if block
    )


def _lines(passage: Passage) -> list[str]:
    when = moment(passage.message.said_at)
    said = [line for block in record_of([passage.message.chat]) for line in block.splitlines()]
    return [
        f"{passage.id} {when} {line}" if number == 0 else f"{passage.id} {line}"
        for number, line in enumerate(said)
    ]


def _cut(passage: Passage, block: str, tokens: int) -> str:
    if estimate_text_tokens(block) <= tokens:
        return block
    note = f"\n{passage.id} [... cut here]"
    return cut_to_tokens(block, max(1, tokens - estimate_text_tokens(note))) + note


def _shared(passage: Passage, words: set[str]) -> int:
    said = "\n".join(record_of([passage.message.chat])).casefold()
    return sum(word in said for word in words)
