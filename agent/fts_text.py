"""Prepares text for the search index, and parses queries.

The index splits text into words at spaces and punctuation. Chinese, Japanese, Korean and some other scripts write no
spaces, so each of their characters is indexed as a word, and a run of them is searched as a phrase.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

BOUNDARY = "\x1f"
"""Set around characters that are words by themselves. The tokenizer sees a separator that people do not type."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff"  # Hangul
    "\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff"  # kana, bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_CHUNK = re.compile(r'["“”]([^"“”]+)["“”]|([^\s"“”]+)')
_RUN = re.compile(f"[{_UNSPACED}]+|[^\\W{_UNSPACED}]+")

MAX_TERMS = 16
"""A pasted page is not a better query than its beginning."""

_STOP_WORDS_TEXT = """
    a about am an and any are as at be been but by can could d did do does for from had has have he her him
    his how i if in into is it its just ll m me my not of on or our re s she should so some t than that the their
    them then there these they this to up us ve was we were what when where which who whom why will with would
    you your
"""
STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())


def indexable(text: str) -> str:
    """Return one form for what looks the same (width, composition), with unspaced characters set apart."""
    if text.isascii():
        return text
    return _UNSPACED_RUN.sub(
        lambda run: BOUNDARY + BOUNDARY.join(run[0]) + BOUNDARY, unicodedata.normalize("NFKC", text)
    )


def quoted(phrase: str) -> str:
    """Return a phrase in the index's query language, with everything in it escaped."""
    return '"' + indexable(phrase).replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Query:
    """Phrases of one or more words to look for."""

    phrases: tuple[str, ...]
    """Written between quotes: a hit has all of them."""
    terms: tuple[str, ...]
    """The best hits have all of them."""
    words: tuple[str, ...]
    """The terms in smaller pieces, without stop words: a hit has at least one of them."""

    @property
    def marks(self) -> tuple[str, ...]:
        """Return the words to highlight in a hit."""
        return _distinct([*self.phrases, *_without_stop_words(self.terms), *self.words])


def parse_query(text: str) -> Query:
    """Parse a query. Any text is one; what the index cannot hold (punctuation, emoji) is left out."""
    phrases: list[str] = []
    terms: list[str] = []
    for phrase, term in _CHUNK.findall(unicodedata.normalize("NFKC", text).replace("\0", " ")):
        if _has_word(phrase or term):
            (phrases if phrase else terms).append(phrase or term)
    words = list(_pieces(terms))
    return Query(_distinct(phrases), _distinct(terms), _distinct(_without_stop_words(words) or words))


def _pieces(terms: Iterable[str]) -> Iterator[str]:
    """Yield single words, and pairs of unspaced characters: the usual length of a word in those scripts."""
    for term in terms:
        for run in _RUN.findall(term):
            if _UNSPACED_RUN.match(run):
                letters = "".join(filter(_has_word, run))  # vowel signs are not words by themselves
                yield from (letters[i : i + 2] for i in range(max(1, len(letters) - 1)))
            elif _has_word(run):
                yield run


def _without_stop_words(words: Iterable[str]) -> list[str]:
    return [word for word in words if word.casefold() not in STOP_WORDS]


def _has_word(text: str) -> bool:
    """Return whether the tokenizer finds a word: letters, numbers and private-use characters."""
    return any(category[0] in "LN" or category == "Co" for category in map(unicodedata.category, text))


def _distinct(phrases: Iterable[str]) -> tuple[str, ...]:
    return tuple({phrase.casefold(): phrase for phrase in phrases}.values())[:MAX_TERMS]
