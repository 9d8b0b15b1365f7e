"""Texts that a fuzzer found (`tests/fuzz/atheris_splitter.py`) and that were once split wrongly."""

import pytest

from gateway.text.splitter import split_first
from gateway.text.unicode import utf16_length
from tests.support.joined_text import is_whole, split_text

SPACES = " " * 1990

FOUND = {
    "white space as long as a message, in code": (f"```python\nx = 1{SPACES}\n\ny = 2\n```\n", 2000),
    "nothing of the code fits behind its fence": ("~~~\n~1\n\n*\n  !|1" + "\u0301" * 9 + "!👍👍👍👍", 17),
    "a joiner that joins nothing": ("] \n~~~\n    \n _ \n>          \u200d\n|", 16),
    "only a fence in sight": ("\t\n\t\t~~~~" + " " * 65 + "\n\t  \t)~~~#\n\t  ", 70),
    "only backticks in sight": ("\n👍   ~" + "`" * 26 + "_` ", 16),
}


@pytest.mark.parametrize(("text", "limit"), FOUND.values(), ids=FOUND)
def test_the_messages_are_the_text(text: str, limit: int) -> None:
    """Splitting at once and step by step both keep the text."""
    found = split_text(text, limit, utf16_length)
    assert is_whole(text, found), found
    assert all(utf16_length(piece) <= limit for piece in found)
    one_by_one, rest = [], text
    while rest:
        piece, rest = split_first(rest, limit, utf16_length)
        one_by_one.append(piece)
    assert one_by_one == found


def test_white_space_does_not_end_code() -> None:
    """The text after the white space is still code."""
    text, limit = FOUND["white space as long as a message, in code"]
    assert split_text(text, limit, len) == [
        "```python\nx =\n```",
        "```python\n1\n```",
        "```python\ny = 2\n```\n",
    ]
