"""Code blocks that continue in the next message."""

import pytest

from gateway.text.code_blocks import Fence, opening_fence
from gateway.text.splitter import split_first
from tests.support.joined_text import is_whole, split_text

CODE = "\n".join(f"line_{number} = {number}" for number in range(20))


@pytest.mark.parametrize(
    ("opening", "closing", "again"),
    [
        ("```python", "```", "```python"),
        ("```", "```", "```"),
        ("````md", "````", "````md"),
        ("~~~sh", "~~~", "~~~sh"),
        ("  ```c", "  ```", "  ```c"),
        ('```python title="app.py"', "```", "```python"),
        ("- ```js", "  ```", "  ```js"),
        ("> ```go", "> ```", "> ```go"),
    ],
)
def test_a_split_block_is_closed_and_reopened(opening: str, closing: str, again: str) -> None:
    """Each message contains a complete code block with its language and its kind of fence."""
    code = CODE.replace("line", "> line") if ">" in opening else CODE
    text = f"{opening}\n{code}\n{closing}"
    found = split_text(text, 120, len)
    assert len(found) > 2
    assert found[0].startswith(opening + "\n")
    assert all(piece.startswith(again + "\n") for piece in found[1:])
    assert all(piece.endswith("\n" + closing) for piece in found)
    assert is_whole(text, found)


@pytest.mark.parametrize("gap", [0, 1, 6], ids="{} blank lines".format)
@pytest.mark.parametrize("limit", range(100, 140))
def test_no_empty_block_is_opened(limit: int, gap: int) -> None:
    """No message contains a code block without code, wherever the limit falls."""
    blank_lines = "\n" * gap
    text = (
        f"```py\n{CODE[:100]}\n{blank_lines}```\nAnd some words after the code, enough for another message."
    )
    for piece in split_text(text, limit, len):
        assert "```py\n```" not in piece
        assert "```py\n\n```" not in piece
    assert is_whole(text, split_text(text, limit, len))


def test_a_block_prefers_to_stay_whole() -> None:
    """A block that fits begins in the next message if this one is half full."""
    text = "Some introduction, half a message long.\n\n```py\nfirst = 1\nsecond = 2\n```"
    assert split_text(text, 70, len) == [
        "Some introduction, half a message long.",
        "```py\nfirst = 1\nsecond = 2\n```",
    ]


def test_cut_at_a_blank_line_in_the_code() -> None:
    """A blank line between two functions is better than any other line."""
    text = "```py\ndef first():\n    return 1\n\ndef second():\n    return 2\n    # more\n```"
    assert split_text(text, 60, len)[0] == "```py\ndef first():\n    return 1\n```"


def test_indented_code_keeps_its_indentation() -> None:
    """The next message begins with the unchanged line."""
    text = "```py\n" + "    indented_line()\n" * 10 + "```"
    assert split_text(text, 60, len)[1].startswith("```py\n    indented_line()")


def test_a_line_of_code_longer_than_a_message() -> None:
    """A long line of code is cut like a word, inside its fence."""
    text = "```\n" + "x" * 300 + "\n```"
    found = split_text(text, 100, len)
    assert all(piece.startswith("```\n") and piece.endswith("\n```") for piece in found)
    assert is_whole(text, found)


def test_an_example_of_a_fence_does_not_end_the_block() -> None:
    """A fence with more indentation, fewer ticks or other characters is code."""
    fence = opening_fence("````md")
    assert fence == Fence("", "````", "md")
    assert not any(fence.is_closed_by(line) for line in ["```", "~~~~", "    ````", "````md", "text ````"])
    assert all(fence.is_closed_by(line) for line in ["````", "   `````", "````  "])


@pytest.mark.parametrize("line", ["```inline``` code", "``", "text ```py", "````` ` ", "```" + "x" * 300])
def test_lines_that_open_no_block(line: str) -> None:
    """Inline code in three backticks, and lines that only resemble a fence, open no block."""
    assert opening_fence(line) is None


def test_a_language_that_leaves_no_room_is_not_repeated() -> None:
    """The code is more important than the language."""
    text = "```averyveryverylonglanguage\n" + "code\n" * 30 + "```"
    found = split_text(text, 50, len)
    assert found[1].startswith("```\ncode")
    assert is_whole(text, found)


def test_an_open_block_grows_until_the_limit() -> None:
    """While an answer streams, an unfinished block that fits stays open; over the limit it is closed."""
    text = "```py\n" + "x = 1\n" * 5
    assert split_first(text, 40, len) == (text, "")
    piece, rest = split_first(text + "x = 1\n", 40, len)
    assert piece == "```py\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\n```"
    assert rest == "```py\nx = 1\n"
