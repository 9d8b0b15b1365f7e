# ruff: noqa: S608 - only names of columns are put into the SQL
"""Ranked search: messages that most likely answer a question in natural language, best first.

The words of a question are rarely all in one message: one message asks, another answers, a third says when. So a word
also counts for neighbouring messages, less with distance. `docs/recall.md` has the figures for every weight.
"""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from sqlite3 import Connection
from typing import TYPE_CHECKING

from agent.fts_text import parse_query

from ..formatting import to_datetime
from ..messages import last_seq
from .exact import ALL_KEYS, NO_QUOTES, Postings, key_bounds, load_postings
from .request import (
    ISO,
    RANKING_COLUMNS,
    Days,
    Hit,
    RankingRow,
    SearchRequest,
    SearchResult,
    days_in,
    named_speakers,
)

if TYPE_CHECKING:
    from .embeddings import EmbeddingModel, Similarities
_MAX_PERIOD_HITS = 1_000


@dataclass(frozen=True, slots=True)
class Weights:
    window: tuple[float, ...] = (0.6, 0.5, 0.4, 0.3, 0.2)
    """Share that a word counts for the message before the one that has it, for the one before that, and so on."""
    following: float = 0.9
    """Factor of these shares for the messages after the one that has the word."""
    length: float = 0.5
    """Penalty for long messages, as in BM25."""
    saturation: float = 0.9
    """`k1` of BM25."""
    speaker: float = 0.4
    """Bonus for messages of the person whom the question names."""
    days: float = 0.5
    """Bonus for messages from around the days that the question names, as a share of a good score."""
    meaning: float = 0.5
    """Share of the semantic score, against 1 for the words."""

    max_postings: int = 10_000
    """A word that more messages have says little about any of them."""
    max_anchors: int = 200
    """Messages with words of the question that are scored together with their neighbours."""


_MIN_COSINE = 0.4
"""Similarity that a message needs where no message has a word of the question."""
DEFAULT_WEIGHTS = Weights()


def ranked_search(
    connection: Connection,
    request: SearchRequest,
    weights: Weights = DEFAULT_WEIGHTS,
    model: EmbeddingModel | None = None,
) -> SearchResult:
    """Search by words and, with a model, also by meaning."""
    words = query_words(request.text)
    bounds = key_bounds(connection, request)
    if not words or bounds is None:
        return SearchResult([], words)
    seen = find_candidates(connection, request, words, bounds, weights)
    scores, lines = word_scores(seen, weights), seen.lines
    _boost_speaker(scores, lines, seen.named, weights)
    _boost_days(scores, lines, days_in(request.text), weights)
    if not scores and (around := _search_days(connection, request)):
        return SearchResult(around, words)
    if model:
        near = _find_similar(connection, request, seen, bounds, model, weights)
        if scores or near.nearest >= _MIN_COSINE:
            lines = {**lines, **_load_rows(connection, near.best(weights.max_anchors))}
            similar = {key: near.of(each.conversation, each.seq) for key, each in lines.items()}
            _boost_speaker(similar, lines, seen.named, weights)
            scores = _blend(scores, similar, weights)
    hits = [
        Hit(each.key, each.conversation, each.seq, each.said_at, score)
        for each in lines.values()
        if (score := scores.get(each.key, 0.0)) > 0 and request.admits(each.role, each.said_at)
    ]
    hits.sort(key=lambda hit: (-hit.score, -hit.key))
    return SearchResult(hits or _search_days(connection, request), words)


def _search_days(connection: Connection, request: SearchRequest) -> list[Hit]:
    """Return messages from around the days of a question that has no other words, in order."""
    hits: dict[int, Hit] = {}
    for begin, end in filter(None, (days.period() for days in days_in(request.text))):
        rows = connection.execute(
            "SELECT key, conversation, seq, role, said_at FROM messages "
            "WHERE conversation IN (SELECT value FROM json_each(?)) AND NOT echo "
            "AND said_at >= ? AND said_at < ? ORDER BY key LIMIT ?",
            (json.dumps(request.conversations), begin, end, _MAX_PERIOD_HITS),
        )
        for key, conversation, seq, role, said_at in rows:
            if request.admits(role, said_at):
                hits.setdefault(key, Hit(key, conversation, seq, said_at, 1.0))
    return list(hits.values())


@dataclass(frozen=True, slots=True)
class Candidates:
    """The messages that contain words of the question, with their neighbours."""

    lines: Mapping[int, RankingRow]
    postings: Sequence[Postings]
    named: Mapping[str, frozenset[str]]
    """Speakers that the question names, each with the matching words."""
    total: int

    @property
    def names(self) -> frozenset[str]:
        return frozenset[str]().union(*self.named.values())


def find_candidates(
    connection: Connection,
    request: SearchRequest,
    words: Sequence[str],
    bounds: tuple[int, int],
    weights: Weights,
) -> Candidates:
    """Look up the words. Words in the messages `request.without` do not count."""
    total = sum(last_seq(connection, each) for each in request.conversations)
    found = [
        load_postings(connection, request.conversations, word, bounds, weights.max_postings) for word in words
    ]
    there = [
        each for each in (replace(each, keys=each.keys - request.without) for each in found) if each.keys
    ]
    # A word that is too common counts only where there are no others.
    postings = [each for each in there if not each.is_common] or there
    anchors = _anchors(postings, total, weights.max_anchors)
    lines = _with_neighbours(connection, anchors, len(weights.window))
    named = named_speakers(words, lines.values())
    # Who speaks counts, not who is mentioned.
    names = frozenset[str]().union(*named.values())
    others = [each for each in postings if each.word.casefold() not in names]
    return Candidates(lines, others or postings, named, total)


def query_words(text: str) -> tuple[str, ...]:
    """Return single words without stop words; quoted phrases and ISO dates stay together."""
    text = text[:_MAX_QUESTION]
    phrases = [phrase for phrase in parse_query(text).phrases if len(phrase.split()) > 1]
    dates = [found[0] for found in ISO.finditer(text)]
    words = parse_query(ISO.sub(" ", text).translate(NO_QUOTES)).words
    return tuple(dict.fromkeys((*words, *dates, *phrases)))


_MAX_QUESTION = 20_000
"""Characters. A pasted page is not a better question than its beginning."""


def _anchors(postings: Sequence[Postings], total: int, most: int) -> list[int]:
    """Return the messages whose own words weigh most, the newest of equals."""
    own: dict[int, float] = {}
    for each in postings:
        weight = each.weight(total)
        for key in each.keys:
            own[key] = own.get(key, 0.0) + weight
    if len(own) <= most:
        return list(own)
    return heapq.nlargest(most, own, key=lambda key: (own[key], key))


def _with_neighbours(connection: Connection, keys: Sequence[int], reach: int) -> dict[int, RankingRow]:
    """Load the messages and their neighbours, by key."""
    rows = connection.execute(
        f"SELECT {RANKING_COLUMNS} FROM messages WHERE NOT echo AND key IN ("
        "SELECT near.key FROM messages AS anchor JOIN messages AS near ON near.conversation = anchor.conversation "
        "AND near.seq BETWEEN anchor.seq - :reach AND anchor.seq + :reach "
        "WHERE anchor.key IN (SELECT value FROM json_each(:keys)))",
        {"keys": json.dumps(keys), "reach": reach},
    )
    return {row["key"]: RankingRow.read(row) for row in rows}


def word_scores(seen: Candidates, weights: Weights) -> dict[int, float]:
    """Return the score of each message by key, from its words and those of its neighbours."""
    lines = seen.lines
    keys = {(each.conversation, each.seq): each.key for each in lines.values()}
    average = sum(each.tokens for each in lines.values()) / max(1, len(lines))
    steps = [(0, 1.0)]
    for distance, share in enumerate(weights.window, 1):
        steps += [(distance, share), (-distance, share * weights.following)]
    scores: dict[int, float] = {}
    for each in seen.postings:
        best: dict[int, float] = {}
        for key in each.keys & lines.keys():
            here = lines[key]
            own = _bm25(here.tokens / max(1.0, average), weights)
            for step, share in steps:
                there = keys.get((here.conversation, here.seq + step))
                if there is not None and best.get(there, 0.0) < own * share:
                    best[there] = own * share
        weight = each.weight(seen.total)
        for key, share in best.items():
            scores[key] = scores.get(key, 0.0) + weight * share
    return scores


def _bm25(length: float, weights: Weights) -> float:
    """Return the BM25 factor of a word that occurs once: smaller in a long message."""
    longer = 1 - weights.length + weights.length * length
    return (weights.saturation + 1) / (1 + weights.saturation * longer)


def _boost_speaker(
    scores: dict[int, float],
    lines: Mapping[int, RankingRow],
    named: Mapping[str, frozenset[str]],
    weights: Weights,
) -> None:
    """Boost the messages of the one person whom the question names."""
    if len(named) == 1:
        for key in scores:
            if lines[key].speaker in named:
                scores[key] *= 1 + weights.speaker


def _boost_days(
    scores: dict[int, float], lines: Mapping[int, RankingRow], days: Sequence[Days], weights: Weights
) -> None:
    if not days or not scores:
        return
    good = heapq.nlargest(20, scores.values())
    more = weights.days * good[len(good) // 2]
    for key in scores:
        moment = to_datetime(lines[key].said_at)
        if moment and any(each.includes(moment) for each in days):
            scores[key] += more


def _find_similar(
    connection: Connection,
    request: SearchRequest,
    seen: Candidates,
    bounds: tuple[int, int],
    model: EmbeddingModel,
    weights: Weights,
) -> Similarities:
    from .embeddings import find_similar  # noqa: PLC0415 - numpy is there if a model is

    words = query_words(request.text)
    question = " ".join(word for word in words if word.casefold() not in seen.names) or " ".join(words)
    after = [share * weights.following for share in weights.window]
    return find_similar(connection, request, question, model, bounds, before=weights.window, after=after)


def _load_rows(connection: Connection, places: Iterable[tuple[int, int]]) -> dict[int, RankingRow]:
    found = (
        connection.execute(
            f"SELECT {RANKING_COLUMNS} FROM messages WHERE conversation = ? AND seq = ? AND NOT echo", place
        ).fetchone()
        for place in places
    )
    return {row["key"]: RankingRow.read(row) for row in found if row}


def _blend(scores: Mapping[int, float], near: Mapping[int, float], weights: Weights) -> dict[int, float]:
    """Add both scores, each as a share of a good score of its kind."""
    good_score, good_near = _good_score(scores.values()), _good_score(near.values())
    return {
        key: scores.get(key, 0.0) / good_score + weights.meaning * share / good_near
        for key, share in near.items()
    }


def _good_score(values: Iterable[float]) -> float:
    """Return the tenth best, or the last of fewer."""
    return min(heapq.nlargest(10, (value for value in values if value > 0)), default=1.0)


_ENOUGH_RARE_WORDS = 2.0
"""A full match needs as much weight as this many unique words: one rare word may be a coincidence."""
_MAX_COMMON_SHARE = 0.02
_MIN_COMMON = 2
"""A word in more than this share of the messages, and in more than this many, does not count for hints."""
_SMALL_TALK_TEXT = """
    ok okay yes yeah yep no nope sure right well oh wow haha lol hi hello hey bye goodbye morning evening night
    thanks thank thx cheers please sorry welcome congrats good great nice cool awesome amazing fine fun glad happy
    sound sounds love like want need think know see say said tell talk look let go going get got make take give
    keep catch check care soon later now today day time long again back more much many lot lots thing things way
    one two first last new really very definitely totally absolutely maybe always ever never too also only even
    still already anything something everything nothing here out off over done happen happened hope wait enjoy
    best better mean feel help try use kind sort stuff guys everyone people
"""
SMALL_TALK = frozenset(_SMALL_TALK_TEXT.split())
_NARROW_WEIGHTS = replace(DEFAULT_WEIGHTS, window=DEFAULT_WEIGHTS.window[:2])
"""Only close neighbours count for hints."""


def strong_matches(
    connection: Connection, conversation: int, text: str, limit: int
) -> list[tuple[int, float]]:
    """Return message keys with a match strength from 0 to 1, best first.

    The strength is high where a message has most of the text's words and where these are rare enough.
    """
    words = [word for word in query_words(text) if word.casefold() not in SMALL_TALK]
    if not words:
        return []
    seen = find_candidates(connection, SearchRequest([conversation], text), words, ALL_KEYS, _NARROW_WEIGHTS)
    often = max(_MIN_COMMON, _MAX_COMMON_SHARE * seen.total)
    usual = {each.word for each in seen.postings if len(each.keys) > often}
    rarest = math.log(1 + (seen.total + 0.5) / 0.5)
    weights = {each.word: each.weight(seen.total) for each in seen.postings}
    whole = sum(weights.get(word, rarest) for word in words if word.casefold() not in seen.names)
    rare = replace(seen, postings=[each for each in seen.postings if each.word not in usual])
    matches = [
        (key, math.sqrt(min(1.0, score / whole) * min(1.0, score / (_ENOUGH_RARE_WORDS * rarest))))
        for key, score in word_scores(rare, _NARROW_WEIGHTS).items()
    ]
    matches.sort(key=lambda match: (-match[1], -match[0]))
    return matches[:limit]
