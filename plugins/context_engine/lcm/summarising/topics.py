"""Topics of a text without a model: names, identifiers and rare words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest

import regex  # type: ignore[import-untyped]

from agent.compression.identifiers import find_identifiers
from agent.fts_text import STOP_WORDS
from agent.messages import ChatDict, call_of, text_of
from agent.untrusted import own_words, without_marks

from ..messages import make_storable
from .sources import TOPIC_SEPARATOR, Sources, clean_topics, truncate_topics

_MAX_SEARCHED = 100_000
"""Characters of all messages together; each gets an equal share, at least `_MIN_SEARCHED`."""
_MIN_SEARCHED = 200
_MIN_WORD = 5
_MAX_TOPIC = 40
_MAX_COUNTED = 3
"""More occurrences of a word do not count. Long words count more: in most languages they are rare."""
_NAMES, _IDENTIFIERS, _WORDS = 6, 4, 8
_PHRASE = range(2, 9)
"""Characters of a run that may be a word, in scripts without spaces."""

_WORD = re.compile(r"(?<![\w-])[^\W\d_]++(?:[-'’][^\W\d_]++)*+(?!-?\w)")
"""Not part of an identifier."""
_NAME = regex.compile(r"(?<=[\w,;)] )\p{Lu}[\p{L}'’-]++(?: \p{Lu}[\p{L}'’-]++)*+")
"""Capitalised words within a sentence: "New York" is one name."""
_POSSESSIVE = re.compile(r"['’]s$")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_EVERYDAY_TEXT = """
    absolutely actually after again almost already also although always amazing another anyone anything around awesome
    because before being believe better between definitely different doing either every everyone everything exactly
    getting going great happy having hello here however important instead least little maybe might makes making
    myself never nothing often other ourselves people perhaps please pretty probably really right since someone
    something sometimes sounds still super sure thank thanks themselves thing things think though thought through
    today together tomorrow under until using want wanted whatever while without wonderful yesterday yourself
"""
_EVERYDAY = STOP_WORDS.union(_EVERYDAY_TEXT.split())


def find_topics(sources: Sources, tokens: int) -> str:
    """Return one line of at most these tokens; empty if there are none."""
    # Tool results count only where people and the assistant say nothing.
    share = max(_MIN_SEARCHED, _MAX_SEARCHED // max(1, len(sources.chats)))
    topics = (
        _of_children(sources.topics)
        or topics_in(text[:share] for text in _said(sources.chats))
        or topics_in(text[:share] for text in _others(sources.chats))
    )
    return truncate_topics(clean_topics(make_storable(", ".join(topics))), tokens)


def _of_children(lines: Iterable[str]) -> list[str]:
    """Take one topic of each child in turn."""
    each = [[topic.strip() for topic in TOPIC_SEPARATOR.split(line)] for line in lines]
    mixed = (topic for layer in zip_longest(*each, fillvalue="") for topic in layer if topic)
    return list({topic.casefold(): topic for topic in mixed}.values())


def _said(chats: Sequence[ChatDict]) -> Iterator[str]:
    return (own_words(text_of(chat)) for chat in chats if chat["role"] != "tool")


def _others(chats: Sequence[ChatDict]) -> Iterator[str]:
    for chat in chats:
        yield without_marks(text_of(chat))
        yield from (" ".join(call_of(call)) for call in chat.get("tool_calls") or ())


def topics_in(texts: Iterable[str]) -> list[str]:
    """Return names, then identifiers, then other words, the most significant first."""
    names, words, pieces = Counter[str](), Counter[str](), dict[str, None]()
    for text in texts:
        names.update(filter(None, map(_without_everyday_words, _NAME.findall(text))))
        words.update(
            word.casefold() for word in map(_strip_possessive, _WORD.findall(text)) if _is_topic(word)
        )
        pieces.update(dict.fromkeys(text.split()))
    # Counters keep the order in which words came, and sorting keeps it among equals.
    chosen = [name for name, _ in names.most_common(_NAMES)]
    identifiers = [each for each in find_identifiers(pieces) if len(each) <= _MAX_TOPIC]
    ranked = sorted(words, key=lambda word: -(len(word) - 1) * min(words[word], _MAX_COUNTED))
    known = {part for name in chosen for part in name.casefold().split()}
    return [
        *chosen,
        *islice((each for each in identifiers if each.casefold() not in known), _IDENTIFIERS),
        *islice((each for each in ranked if each not in known), _WORDS),
    ]


def _without_everyday_words(name: str) -> str:
    words = (word for word in name.split() if word.split("'")[0].casefold() not in _EVERYDAY)
    return _strip_possessive(" ".join(words))[:_MAX_TOPIC]


def _strip_possessive(word: str) -> str:
    return _POSSESSIVE.sub("", word)


def _is_topic(word: str) -> bool:
    if _UNSPACED.search(word):
        return len(word) in _PHRASE
    return _MIN_WORD <= len(word) <= _MAX_TOPIC and "'" not in word and word.casefold() not in _EVERYDAY
