"""Where long answers are split into messages."""

import pytest

from gateway.text.splitter import SMALLEST_LIMIT, split_first
from gateway.text.unicode import Measure, utf16_length
from tests.support.joined_text import is_whole, split_text

MEASURES: list[Measure] = [len, utf16_length]


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("length", [4095, 4096, 4097])
def test_around_the_limit(measure: Measure, length: int) -> None:
    """A text up to the limit is one message; one more character makes two."""
    found = split_text("a" * length, 4096, measure)
    assert [len(piece) for piece in found] == ([length] if length <= 4096 else [4096, 1])


@pytest.mark.parametrize(
    "tail",
    [
        "😀",
        "\u200f",
        "\u200b",
        "e\u0301",
        "👨\u200d👩\u200d👧",
        "🇩🇪",
        "👍🏽",
        "ש\u05bc",
        "กำ",
        "कि",
        "한\u11a8",
    ],
)
@pytest.mark.parametrize("before", [4093, 4094, 4095, 4096])
def test_no_grapheme_is_split_at_the_limit(before: int, tail: str) -> None:
    """Emoji families, flags, accents, vowel signs and direction marks stay whole wherever the limit falls."""
    found = split_text("a" * before + tail + "z" * 10, 4096, utf16_length)
    assert all(utf16_length(piece) <= 4096 for piece in found)
    assert any(tail in piece for piece in found)
    assert "".join(found) == "a" * before + tail + "z" * 10


def test_paragraphs_before_everything() -> None:
    """The end of a paragraph wins although more lines would fit."""
    text = "First paragraph, quite long already.\n\nSecond line\nthird line\nfourth line"
    assert split_text(text, 64, len)[0] == "First paragraph, quite long already."


def test_items_before_lines() -> None:
    """A list item keeps its continuation lines."""
    text = "- one item of some length\n- second item\n  goes on here\n  and here, for long"
    assert split_text(text, 50, len)[0] == "- one item of some length"


def test_lines_before_sentences() -> None:
    """A line break of the author is better than the end of a sentence."""
    text = "A line that says something\nAnd another. It goes on and on and on"
    assert split_text(text, 50, len)[0] == "A line that says something"


def test_sentences_before_words() -> None:
    """A message ends with a sentence if it is at least half full then."""
    text = "This is a sentence of words. And this one is a longer sentence of words."
    assert split_text(text, 50, len) == [
        "This is a sentence of words.",
        "And this one is a longer sentence of words.",
    ]


def test_chinese_needs_no_spaces() -> None:
    """A Chinese full stop ends a sentence, and a cut may fall between any two characters."""
    assert split_text("这是第一个句子，它有一点长。" * 2, 20, len) == ["这是第一个句子，它有一点长。"] * 2
    assert split_text("好" * 50, 20, len) == ["好" * 20, "好" * 20, "好" * 10]


@pytest.mark.parametrize("limit", range(44, 70))
def test_a_heading_stays_with_its_text(limit: int) -> None:
    """A heading is never the last line of a message."""
    text = "Something said before it.\n\n## The heading\n\nThe text under the heading is here."
    assert not split_text(text, limit, len)[0].endswith("## The heading")


def test_a_short_paragraph_is_not_a_message() -> None:
    """A message is at least half full where words allow it."""
    text = "Well.\n\n" + "word " * 40
    assert len(split_text(text, 100, len)[0]) > 50


@pytest.mark.parametrize(
    "span",
    [
        "[a link with text](https://example.com/a_(b)?c=d)",
        "[![badge](https://example.com/b.svg)](https://example.com)",
        "https://example.com/a/rather/long/address?with=query",
        "`inline code with spaces`",
        "``code with a ` in it and more``",
        "**bold words that belong together**",
        "_italic words that belong together_",
        '[link](https://example.com "and a title with words")',
    ],
)
@pytest.mark.parametrize("before", range(20, 66, 3))
def test_spans_stay_whole(span: str, before: int) -> None:
    """A link, code or emphasis that fits into a message is never split."""
    text = ("word " * 20)[:before].rstrip() + " " + span + " and more words after it, and more" * 2
    found = split_text(text, 80, len)
    assert any(span in piece for piece in found)
    assert is_whole(text, found)


def test_a_link_longer_than_a_message_is_split() -> None:
    """A link that fits into no message is split."""
    text = "See [this](https://example.com/" + "a" * 300 + ")."
    found = split_text(text, 100, len)
    assert found[0] == "See"
    assert is_whole(text, found)


def test_a_stray_bracket_does_not_shorten_a_message() -> None:
    """Text that only looks like the beginning of a link does not shorten a message."""
    text = "An array x[0 and [ then " + "many more words " * 20
    assert len(split_text(text, 100, len)[0]) > 80


def test_a_table_is_cut_between_rows() -> None:
    """A table is never cut within a row, and its head never stays alone."""
    rows = [f"| row {number} | some value |" for number in range(10)]
    text = "\n".join(["Before the table.", "", "| key | value |", "|---|---|", *rows])
    found = split_text(text, 100, len)
    assert all(line in text.split("\n") for piece in found for line in piece.split("\n"))
    assert not any(piece.endswith(("|---|---|", "| key | value |")) for piece in found)


def test_a_word_of_a_hundred_thousand_characters() -> None:
    """A very long word fills whole messages, and nothing is lost."""
    found = split_text("x" * 100_000, 2000, len)
    assert [len(piece) for piece in found] == [2000] * 50


def test_no_message_is_only_white_space() -> None:
    """No message consists of white space or zero-width characters."""
    assert split_text(" \n\n\u200b ", 40, len) == []
    assert split_text("a" * 40 + "\n" * 100, 40, len) == ["a" * 40]
    assert split_text("a" + "\n" * 200 + "b", 40, len) == ["a", "b"]
    assert split_text("a" + "\u200b" * 200 + "b", 40, len)[-1] == "b"
    assert split_text("\n" * 100 + " " * 100 + "b", 40, len) == ["b"]


def test_indentation_survives_a_cut() -> None:
    """A nested item stays nested."""
    text = "- outer item, some words in it\n  - inner item, some words in it\n    - innermost"
    assert split_text(text, 40, len)[1].startswith("  - inner")


def test_trailing_white_space_gives_no_rest() -> None:
    """Trailing white space over the limit gives no rest yet; the text after it decides."""
    assert split_first("a" * 40 + "\n\n", 40, len) == ("a" * 40, "")
    assert split_first("a" * 40 + "\n\nb", 40, len) == ("a" * 40, "b")
    assert split_first("a" * 40 + "\u200b", 40, len) == ("a" * 40, "")
    fits_but_for_its_end = "First paragraph, some words.\n\nThe second"
    assert split_first(fits_but_for_its_end + "\n", 40, len) == (fits_but_for_its_end, "")


def test_a_limit_that_is_too_small_is_refused() -> None:
    """A tiny limit has no room for fences or for one emoji."""
    with pytest.raises(ValueError, match="at least"):
        split_text("text", SMALLEST_LIMIT - 1, len)


def test_work_is_linear() -> None:
    """Each character is measured a bounded number of times."""

    def measured(text: str) -> int:
        total = 0

        def counting(part: str) -> int:
            nonlocal total
            total += len(part)
            return len(part)

        split_text(text, 2000, counting)
        return total

    paragraph = "Some words and `code` in a paragraph, and then [a link](https://example.com).\n\n"
    assert measured(paragraph * 1000) < 15 * measured(paragraph * 100)
