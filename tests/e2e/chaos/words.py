"""Texts of the kill test: every word names its message, so that no two can be confused.

A question holds `q42`. The model's answer to its second request consists of `m42a2w0`, `m42a2w1` and so on: each word
tells the question, the attempt and the position.
"""

from __future__ import annotations

import re
from typing import NamedTuple

PARAGRAPH = 30
"""Words. A long answer is cut between paragraphs."""

_WORD = re.compile(r"\bm(\d+)a(\d+)w(\d+)\b")
_QUESTION = re.compile(r"\bq(\d+)\b")
_KEY = re.compile(r"\bk(\d+)a(\d+)\b")


class Word(NamedTuple):
    token: int
    attempt: int
    place: int


def question(token: int) -> str:
    return f"please answer q{token}"


def asked_in(text: str) -> int | None:
    """Return the last question in the text."""
    found = _QUESTION.findall(text)
    return int(found[-1]) if found else None


def answer(token: int, attempt: int, count: int) -> str:
    words = [f"m{token}a{attempt}w{index}" for index in range(count)]
    paragraphs = [words[at : at + PARAGRAPH] for at in range(0, count, PARAGRAPH)]
    return "\n\n".join(" ".join(paragraph) for paragraph in paragraphs)


def words_in(text: str) -> list[Word]:
    return [Word(*map(int, found)) for found in _WORD.findall(text)]


def effect_key(token: int, attempt: int) -> str:
    """Return the argument of a tool call, different for each request of the model."""
    return f"k{token}a{attempt}"


def kept(key: str) -> str:
    """What the tool says when its effect has happened."""
    return f"kept {key}"


def keys_in(text: str) -> list[str]:
    return [f"k{token}a{attempt}" for token, attempt in _KEY.findall(text)]


def token_of_key(key: str) -> int:
    found = _KEY.fullmatch(key)
    assert found, key
    return int(found[1])
