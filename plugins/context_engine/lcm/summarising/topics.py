"""Topics of a text without a model: names, identifiers and rare words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest

from agent.compression.identifiers import find_identifiers
from agent.fts_text import STOP_WORDS
from agent.messages import ChatDict, call_of, text_of
from agent.untrusted import own_words, without_marks

from .sources import Sources, clean_topics, make_storable, truncate_topics

_MAX_SEARCHED = 100_000
"""Characters of all messages together; each gets an equal share, at least `_MIN_SEARCHED`."""
_MIN_SEARCHED = 200
_MIN_WORD = 5
_MAX_TOPIC = 40
_MAX_COUNTED = 3
"""More occurrences of a word do not count."""
_NAMES, _IDENTIFIERS, _WORDS = 6, 4, 8
_PHRASE = range(2, 9)
"""Characters of a run that may be a word, in scripts without spaces."""

_WORD = re.compile(r"(?<![\w-])[^\W\d_]++(?:[-'’][^\W\d_]++)*+(?!-?\w)")
"""Not part of an identifier."""
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
_ENDS_A_SENTENCE = ".!?:。！？…\n"
_BETWEEN = " \t\"'“”‘’«»()*_`>-"
_SEPARATOR = re.compile(r"[,;，、；]")


def find_topics(sources: Sources, tokens: int) -> str:
    """Return one line of at most these tokens; empty if nothing stands out."""
    topics = _of_children(sources.topics) or _of_chats(sources.chats)
    return truncate_topics(clean_topics(make_storable(", ".join(topics))), tokens)


def _of_children(lines: Iterable[str]) -> list[str]:
    """Take one topic of each child in turn."""
    each = [[topic.strip() for topic in _SEPARATOR.split(line)] for line in lines]
    mixed = (topic for layer in zip_longest(*each, fillvalue="") for topic in layer if topic)
    return list({topic.casefold(): topic for topic in mixed}.values())


def _of_chats(chats: Sequence[ChatDict]) -> list[str]:
    """Use messages of people and the assistant; tool results only if those say nothing."""
    return topics_in(_said(chats)) or topics_in(_others(chats))


def _said(chats: Sequence[ChatDict]) -> Iterator[str]:
    share = _share(chats)
    for chat in chats:
        if chat["role"] != "tool":
            yield own_words(text_of(chat))[:share]


def _others(chats: Sequence[ChatDict]) -> Iterator[str]:
    share = _share(chats)
    for chat in chats:
        yield without_marks(text_of(chat))[:share]
        for call in chat.get("tool_calls") or ():
            yield " ".join(call_of(call))[:share]


def _share(chats: Sequence[ChatDict]) -> int:
    return max(_MIN_SEARCHED, _MAX_SEARCHED // max(1, len(chats)))


@dataclass(slots=True)
class _Vocabulary:
    names: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)


def topics_in(texts: Iterable[str]) -> list[str]:
    """Return names, then identifiers, then other words, the most significant first."""
    vocabulary = _Vocabulary()
    everything: dict[str, None] = {}
    for text in texts:
        _count(text, vocabulary)
        everything.update(dict.fromkeys(text.split()))
    # Counters keep the order in which words came, and sorting keeps it among equals.
    names = [name for name, _ in (+vocabulary.names).most_common(_NAMES)]
    identifiers = [each for each in find_identifiers(everything) if len(each) <= _MAX_TOPIC]
    words = sorted(vocabulary.words, key=lambda word: -_topic_weight(word, vocabulary.words[word]))
    known = {part for name in names for part in name.casefold().split()}
    return [
        *names,
        *islice((each for each in identifiers if each.casefold() not in known), _IDENTIFIERS),
        *islice((each for each in words if each not in known), _WORDS),
    ]


def _count(text: str, vocabulary: _Vocabulary) -> None:
    name, end = "", 0
    for found in _WORD.finditer(text):
        word = _POSSESSIVE.sub("", found[0])
        if _is_name(word) and not _begins_a_sentence(text, found.start()):
            # "New York" is one name.
            joined = f"{name} {word}" if name and text[end : found.start()] == " " else word
            if joined != word:
                vocabulary.names[name] -= 1
            vocabulary.names[joined[:_MAX_TOPIC]] += 1
            name, end = joined[:_MAX_TOPIC], found.end()
            continue
        name = ""
        if _is_topic_word(word):
            vocabulary.words[word.casefold()] += 1


def _is_name(word: str) -> bool:
    return len(word) > 1 and word[0].isupper() and word.split("'")[0].casefold() not in _EVERYDAY


def _begins_a_sentence(text: str, start: int) -> bool:
    before = text[max(0, start - 4) : start].rstrip(_BETWEEN)
    return before[-1] in _ENDS_A_SENTENCE if before else start <= 4


def _is_topic_word(word: str) -> bool:
    if _UNSPACED.search(word):
        return len(word) in _PHRASE
    return _MIN_WORD <= len(word) <= _MAX_TOPIC and "'" not in word and word.casefold() not in _EVERYDAY


def _topic_weight(word: str, count: int) -> int:
    """Weigh long words more: in most languages they are rare."""
    return (len(word) - 1) * min(count, _MAX_COUNTED)
