"""Answers in the terminal: cut into blocks while they arrive, and nothing of them lost."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from gateway.cli.chat_markdown import Answer, split_finished

BLOCKS = st.sampled_from(
    [
        "A paragraph\nof two lines.",
        "# Heading",
        "- one\n- two\n\n  more of two\n- three",
        "1. one\n\n2. two",
        "```python\nx = 1\n\n\ny = 2\n```",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "> quoted\n> again",
        "---",
        "    indented code",
    ]
)
DOCUMENTS = st.lists(BLOCKS, min_size=1, max_size=6).map("\n\n".join)


def shown(text: str, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(Answer(text), end="")
    return out.getvalue()


def streamed(text: str, piece: int) -> list[str]:
    """The parts as they are printed when the text arrives in pieces."""
    printed, pending = [], ""
    for at in range(0, len(text), piece):
        finished, pending = split_finished(pending + text[at : at + piece])
        printed.append(finished)
    return [part for part in [*printed, pending] if part.strip()]


@given(DOCUMENTS, st.integers(1, 20))
def test_streaming_shows_what_the_whole_shows(text: str, piece: int) -> None:
    """However the pieces fall, the printed parts are the text, and look as if it had come at once."""
    parts = streamed(text, piece)
    assert "".join(parts).split() == text.split()
    lines = [line for part in parts for line in shown(part).splitlines() if line.strip()]
    assert lines == [line for line in shown(text).splitlines() if line.strip()]


@given(st.text(), st.integers(1, 5))
def test_any_text_is_printed_once_and_whole(text: str, piece: int) -> None:
    """Cutting never drops or repeats a character, for any text."""
    pending, printed = "", ""
    for at in range(0, len(text), piece):
        finished, pending = split_finished(pending + text[at : at + piece])
        printed += finished
    assert printed + pending == text


def test_a_block_is_held_back_until_it_cannot_change() -> None:
    """A list may go on, a fence is open until it is closed, a paragraph ends where another begins."""
    assert split_finished("One.\nTwo") == ("", "One.\nTwo")
    assert split_finished("One.\n\nTwo.\n") == ("One.\n\n", "Two.\n")
    assert split_finished("One.\n\n") == ("One.\n\n", "")
    assert split_finished("- a\n- b\n\n2") == ("", "- a\n- b\n\n2")
    assert split_finished("```\na\n\n# b\n\n") == ("", "```\na\n\n# b\n\n")
    assert split_finished("```\na\n```\n\n") == ("```\na\n```\n\n", "")


@pytest.mark.parametrize(
    "text",
    ["Use <div> and <b>bold</b>.", "<script>\nalert(1)\n</script>", "[1]: https://example.org/a", "&lt;"],
)
def test_nothing_the_model_wrote_vanishes(text: str) -> None:
    """HTML and link definitions are shown as text."""
    assert shown(text).split() == text.replace("&lt;", "<").split()


def test_line_breaks_and_addresses_stay() -> None:
    """A poem keeps its lines and a link can be read and copied."""
    assert shown("roses are red\nviolets are blue") == "roses are red\nviolets are blue\n"
    assert shown("see [the page](https://example.org/x)") == "see the page (https://example.org/x)\n"


def test_lines_are_not_filled_up_with_spaces() -> None:
    """Padding would break into empty lines when the window is made narrower."""
    text = "# Title\n\nText\n\n```python\nx = 1\n```\n\n| a |\n|---|\n| b |"
    assert [line for line in shown(text).splitlines() if line != line.rstrip()] == []
