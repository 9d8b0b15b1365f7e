"""Text from outside costs time in proportion to its length: twice as much of it takes about twice as long.

A regular expression holds the interpreter while it runs: one that grows with the square of a text stops all of Hermes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from agent.compression.ledger import Ledger
from plugins.context_engine.lcm.compaction import record_text
from plugins.context_engine.lcm.digests import digest
from plugins.context_engine.lcm.graph import Node
from plugins.context_engine.lcm.hints import _quote
from plugins.context_engine.lcm.messages import EchoDetector, StoredMessage, index_text
from plugins.context_engine.lcm.search.filters import days_in, parse_timestamp, speaker_of, without_label
from plugins.context_engine.lcm.search.page import excerpt
from plugins.context_engine.lcm.search.ranked import query_words
from plugins.context_engine.lcm.search.request import InvalidSearch
from plugins.context_engine.lcm.summarising.sources import (
    make_storable,
    remove_imitations,
    sources_of_messages,
    split_topics,
    truncate_at_sentence,
    truncate_text,
    truncate_topics,
)
from plugins.context_engine.lcm.summarising.topics import find_topics, topics_in
from plugins.context_engine.lcm.tools.expand import message_sections
from plugins.context_engine.lcm.tools.expand_query import check_citations, split_ids
from tests.support.extractive_summariser import extractive_summary

SIZE = 6_000
"""Characters. For twice as many, a quadratic pattern takes most of a second."""
UNSEEN = 0.05
"""Seconds of a processor. What is quicker than this for twice the size has no growth that matters."""
LINEAR, TRIES = 3.0, 3
"""Twice the size takes twice the time, and four times where it is quadratic; the best of some tries counts."""

REPEATED = (
    *(" ", "\t", "\n", " \n", "\n ", "\r", "\x1c", "\u2028", "\u3000"),
    *("a", "1", "a ", "Aa ", ". ", "! \n", "。", "字", "の", "é", "İ", "\ud83d", "\0"),
    *("*", "**", "_", "-", "- ", "\n- ", "1. ", "#", "# ", "```\n", "|", "|-|", "a,", "a;", '"', "'", "\\"),
    *("[", "]", "[a", "[m1, ", "[[", "(", "{", '{"a":', '["', "<", "<a ", "<h1>", "</", "<!--", "&lt;"),
    *("1-", "m1 - ", "c1.m1, ", " and ", "a: ", "May ", "1 May ", "2026-03-01 ", "a-", "a'", "A-", "0x"),
    *("/a", "a/", "https://a ", "key=", "ERROR ", "@@ ", "--- a\n", "def f(\n", "int a*", "const ", "::"),
    *("<outside-", "<system ", "<|", "[LCM RECORD]", "expand for details about", "[s1 · ", "(lcm_"),
)
AROUND = (("", ""), ("a", "x."), ("# T\n- a\n", "!"), ("expand for details about: ", "]"))


def spoken(text: str) -> StoredMessage:
    return StoredMessage(1, 1, "user", {"role": "user", "content": text}, len(text) // 4, 1_770_000_000.0)


def called(text: str) -> dict[str, object]:
    call = {"id": text, "type": "function", "function": {"name": text, "arguments": text}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def node(text: str) -> Node:
    return Node(1, 0, "detailed", text, text[:200], 9, 9, 9, 1, 1, 1, 1.0, 2.0, 1)


def bounds(text: str) -> None:
    with pytest.raises(InvalidSearch):
        parse_timestamp(f"x{text}", end_of_day=True, name="until")


SEES: dict[str, Callable[[str], object]] = {
    "excerpt": lambda text: excerpt({"role": "user", "content": text}, ("word", "turnstile", text[:40])),
    "excerpt of a call": lambda text: excerpt(called(text), ("word",)),
    "digest": lambda text: digest(text, tokens=300),
    "digest of a file": lambda text: digest(text, tokens=300, hint=f"read_file notes.md {text[:300]}"),
    "index": lambda text: index_text({"role": "user", "content": text, "name": text[:99]}),
    "echo": lambda text: EchoDetector().is_echo(called(text)),
    "question": query_words,
    "days": days_in,
    "date": bounds,
    "speaker": lambda text: (speaker_of(text, None), without_label(text)),
    "hint": lambda text: _quote(spoken(text)),
    "topics": lambda text: topics_in([text]),
    "topics of messages": lambda text: find_topics(sources_of_messages([spoken(text)]), 40),
    "sources": lambda text: sources_of_messages([spoken(text)]).record(),
    "extract": lambda text: extractive_summary(text, 500),
    "imitations": remove_imitations,
    "topics of an answer": split_topics,
    "sentence end": truncate_at_sentence,
    "shortened": lambda text: (truncate_text(text, 200), truncate_topics(text, 100), make_storable(text)),
    "citations": lambda text: check_citations(text, []),
    "ids": lambda text: split_ids([text]),
    "record": lambda text: record_text([node(text)], Ledger()),
    "expanded": lambda text: message_sections(spoken(text)),
}


def seconds(function: Callable[[str], object], text: str) -> float:
    began = time.thread_time()
    function(text)
    return time.thread_time() - began


def growth(function: Callable[[str], object], small: str, large: str) -> float:
    """How many times as long the large text takes; 0 where it takes no time."""
    if (whole := min(seconds(function, large) for _ in range(2))) < UNSEEN:
        return 0.0
    half = min(seconds(function, small) for _ in range(2))
    return whole / half


@pytest.mark.parametrize("name", SEES)
def test_twice_the_text_takes_twice_as_long(name: str) -> None:
    function, slow = SEES[name], list[tuple[str, str]]()
    for unit in REPEATED:
        for before, after in AROUND:
            small, large = (before + unit * (size // len(unit)) + after for size in (SIZE, 2 * SIZE))
            if all(growth(function, small, large) >= LINEAR for _ in range(TRIES)):
                slow.append((before, unit))
    assert slow == []


def test_the_growth_of_a_quadratic_pattern_would_be_seen() -> None:
    """The pattern by which excerpts were split before, on white space alone."""
    before = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\s*\n+\s*")
    assert max(growth(before.split, " " * SIZE, " " * 2 * SIZE) for _ in range(TRIES)) >= LINEAR
