"""The cost of text from outside grows with its length in lcm, not with the square of its length."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from agent.compression.ledger import Ledger
from plugins.context_engine.lcm.compaction import record_text
from plugins.context_engine.lcm.digests import digest
from plugins.context_engine.lcm.graph import Node
from plugins.context_engine.lcm.hints import _quote
from plugins.context_engine.lcm.messages import EchoDetector, StoredMessage, index_text, make_storable
from plugins.context_engine.lcm.search.page import excerpt
from plugins.context_engine.lcm.search.ranked import query_words
from plugins.context_engine.lcm.search.request import (
    InvalidSearch,
    days_in,
    parse_timestamp,
    speaker_of,
    without_label,
)
from plugins.context_engine.lcm.summarising.sources import (
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
from tests.support.growth import grows_too_fast

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


def texts() -> Iterator[tuple[str, Callable[[int], str]]]:
    for unit in REPEATED:
        for before, after in AROUND:
            yield (
                f"{before!r} + {unit!r} * n",
                lambda length, b=before, u=unit, a=after: b + u * (length // len(u)) + a,
            )


@pytest.mark.parametrize("name", SEES)
def test_the_cost_grows_with_the_length(name: str) -> None:
    assert not {what: slow for what, text in texts() if (slow := grows_too_fast(SEES[name], text))}
