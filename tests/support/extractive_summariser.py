"""A deterministic summariser for tests: it copies sentences from the record in the prompt."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from agent.tokens import cut_to_tokens, estimate_text_tokens
from plugins.context_engine.lcm.summarising.prompts import END_OF_RECORD, END_OF_SO_FAR, RECORD, SO_FAR
from plugins.context_engine.lcm.summarising.sources import (
    DATE,
    TOPICS,
    clean_topics,
    topic_tokens,
    truncate_topics,
)
from plugins.context_engine.lcm.summarising.topics import topics_in

_RATIO = 4
"""The summary has at most one part in so many of what it is made from."""
_SENTENCE_TOKENS = 40
_LOOKED_AT = 600
"""Characters of a line."""
_LONG = 120
"""Characters of a sentence. A longer one is not better."""
_OFTEN = 3
_LABEL = re.compile(r"\[([^\]\n]{1,90})\] ?")
_NO_SPEAKERS = ("SUMMARY", "EXTRACT", "SO FAR")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|(?<=[。！？])")
_TELLING = re.compile(r"\d+|(?<=[^.!?\s] )[^\W\d_a-z]\w+")
"""A number, or a word with a capital letter within a sentence."""


@dataclass(frozen=True, slots=True)
class _Sentence:
    place: int
    text: str
    tokens: int
    telling: int


def extractive_summary(prompt: str, max_tokens: int) -> str:
    """Replace a model call. The same prompt always gets the same answer."""
    so_far = _between(prompt, SO_FAR, END_OF_SO_FAR)
    material = f"{so_far}\n{_between(prompt, RECORD, END_OF_RECORD) or prompt}"
    budget = min(max_tokens * 3 // 4, estimate_text_tokens(material) // _RATIO)
    chosen = _chosen(list(_sentences(material)), max(1, budget - topic_tokens(budget)))
    topics = truncate_topics(
        clean_topics(", ".join(topics_in(each.text for each in chosen))), min(topic_tokens(budget), budget)
    )
    lines = [f"- {each.text}" for each in chosen]
    return "\n".join((*lines, f"{TOPICS} {topics}") if topics else lines)


def _between(prompt: str, begin: str, end: str) -> str:
    """Every line in between has a label, so the marks are the real ones."""
    _, _, rest = prompt.partition(f"\n{begin}\n")
    return rest.partition(f"\n{end}")[0]


def _sentences(material: str) -> Iterator[_Sentence]:
    """The best one of each line."""
    lines = [line for line in material.splitlines() if not line.startswith(DATE)]
    usual = _usual(lines)
    for place, line in enumerate(lines):
        label = _LABEL.match(line)
        said = line[label.end() if label else 0 :][:_LOOKED_AT].strip(" -*•")
        if not said or said.startswith(TOPICS):
            continue
        telling, _, _, sentence = max(
            (len(set(_TELLING.findall(each)) - usual), min(len(each), _LONG), -number, each)
            for number, each in enumerate(_SENTENCE_END.split(said))
        )
        speaker = f"{label[1].lower()}: " if label and label[1] not in _NO_SPEAKERS else ""
        text = speaker + cut_to_tokens(sentence, _SENTENCE_TOKENS).strip()
        yield _Sentence(place, text, estimate_text_tokens(text) + 1, telling)


def _usual(lines: list[str]) -> set[str]:
    """Weigh words by rarity: a word of many lines says little about one of them."""
    counts = Counter(word for line in lines for word in set(_TELLING.findall(line[:_LOOKED_AT])))
    most = max(_OFTEN, len(lines) // 10)
    return {word for word, count in counts.items() if count > most}


def _chosen(sentences: list[_Sentence], room: int) -> list[_Sentence]:
    """Return the lines that fit, in order: the best of each part, then the next best."""
    if not sentences:
        return []
    fit = max(1, room * len(sentences) // sum(each.tokens for each in sentences))
    stride = -(-len(sentences) // fit)
    best = {max(sentences[n : n + stride], key=_worth) for n in range(0, len(sentences), stride)}
    chosen: list[_Sentence] = []
    left = room
    for each in sorted(sentences, key=lambda each: (each in best, _worth(each)), reverse=True):
        if each.tokens <= left:
            chosen.append(each)
            left -= each.tokens
    if not chosen:
        first = sentences[0]
        chosen = [replace(first, text=cut_to_tokens(first.text, room))]
    return sorted(chosen, key=lambda each: each.place)


def _worth(sentence: _Sentence) -> tuple[int, int, int]:
    return sentence.telling, sentence.tokens, -sentence.place
