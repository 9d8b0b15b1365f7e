"""A message on one line: whole if it is short, else the sentences that have to do with the query."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.chat_text import call_of, text_of
from agent.messages import ChatDict
from agent.tokens import cut_to_tokens, estimate_text_tokens
from agent.untrusted import without_marks

WHOLE_TOKENS = 120
"""Up to this size a message is shown as it is."""
PART_TOKENS = 100
"""So much of a longer one."""
_MOST_LOOKED_AT = 100_000
"""Characters."""
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])")
"""Within a line. White space is matched only behind a sign, so a long run of it is looked at once."""
_GAP = "…"
_LEAST_STEM = 4
_ENDING = 3
_BEFORE = 160
"""Characters that are shown before the word, in a sentence without an end."""


def line_of(chat: ChatDict, words: Sequence[str]) -> str:
    calls = (f"[calls {name} {arguments}]" for name, arguments in map(call_of, chat.get("tool_calls") or ()))
    text = "\n".join(filter(None, (without_marks(text_of(chat)), *calls)))
    if len(text) <= 4 * WHOLE_TOKENS and estimate_text_tokens(text) <= WHOLE_TOKENS:
        return " ".join(text.split())
    return _best(text[:_MOST_LOOKED_AT], words)


def _best(text: str, words: Sequence[str]) -> str:
    """In their order, with a mark where something was left out."""
    stems = [_stem(word) for word in words]
    parts = (part for line in text.split("\n") for part in _SENTENCE_END.split(line))
    sentences = [" ".join(part.split()) for part in parts if part.strip()]
    order = sorted(range(len(sentences)), key=lambda index: (-_shared(sentences[index], stems), index))
    shown: dict[int, str] = {}
    room = PART_TOKENS
    for index in order:
        size = estimate_text_tokens(sentences[index]) + 1
        if size <= room:
            shown[index] = sentences[index]
            room -= size
        elif not shown:
            return _around(sentences[index], stems)
        else:
            break
    return _joined(shown, len(sentences))


def _joined(shown: dict[int, str], total: int) -> str:
    pieces: list[str] = []
    last = -1
    for index in sorted(shown):
        pieces += [_GAP] if index > last + 1 else []
        pieces.append(shown[index])
        last = index
    return " ".join([*pieces, *([_GAP] if last < total - 1 else [])])


def _around(sentence: str, stems: Sequence[str]) -> str:
    """A sentence that is too long by itself, from shortly before the first word of the query."""
    folded = sentence.casefold()
    places = [place for stem in stems if (place := folded.find(stem)) >= 0]
    start = max(0, min(places, default=0) - _BEFORE)
    if start:
        start = sentence.find(" ", start, start + _BEFORE) + 1 or start
    cut = cut_to_tokens(sentence[start : start + 8 * PART_TOKENS], PART_TOKENS)
    end = start + len(cut) >= len(sentence)
    return f"{_GAP + ' ' if start else ''}{cut.strip()}{'' if end else ' ' + _GAP}"


def _stem(word: str) -> str:
    """Near enough for choosing a sentence."""
    folded = word.casefold()
    return (
        folded[: max(_LEAST_STEM, len(folded) - _ENDING)] if folded.isalpha() and folded.isascii() else folded
    )


def _shared(sentence: str, stems: Sequence[str]) -> int:
    folded = sentence.casefold()
    return sum(stem in folded for stem in stems)
