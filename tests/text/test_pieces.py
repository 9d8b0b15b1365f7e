"""Long answers in several messages: where they are cut, and where not."""

import pytest

from gateway.text.splitter import SMALLEST_LIMIT, split_first, split_text
from gateway.text.unicode import Measure, utf16_length
from tests.text.whole import is_whole

MEASURES: list[Measure] = [len, utf16_length]


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("length", [4095, 4096, 4097])
def test_around_the_limit(measure: Measure, length: int) -> None:
    """One message up to the limit, two from the first character over it."""
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
def test_no_character_is_torn_at_the_limit(before: int, tail: str) -> None:
    """Emoji families, flags, accents and marks of direction stay whole wherever the limit falls."""
    found = split_text("a" * before + tail + "z" * 10, 4096, utf16_length)
    assert all(utf16_length(piece) <= 4096 for piece in found)
    assert any(tail in piece for piece in found)
    assert "".join(found) == "a" * before + tail + "z" * 10


def test_paragraphs_before_everything() -> None:
    """A paragraph's end is taken although more lines would fit."""
    text = "First paragraph, quite long already.\n\nSecond line\nthird line\nfourth line"
    assert split_text(text, 64, len)[0] == "First paragraph, quite long already."


def test_items_before_lines() -> None:
    """An item keeps its continuation lines."""
    text = "- one item of some length\n- second item\n  goes on here\n  and here, for long"
    assert split_text(text, 50, len)[0] == "- one item of some length"


def test_lines_before_sentences() -> None:
    """Where the author broke the line is better than a full stop."""
    text = "A line that says something\nAnd another. It goes on and on and on"
    assert split_text(text, 50, len)[0] == "A line that says something"


def test_sentences_before_words() -> None:
    """A message ends with a sentence if it is half full by then."""
    text = "This is a sentence of words. And this one is a longer sentence of words."
    assert split_text(text, 50, len) == [
        "This is a sentence of words.",
        "And this one is a longer sentence of words.",
    ]


def test_chinese_needs_no_spaces() -> None:
    """Its full stop ends a sentence, and any two characters may part."""
    assert split_text("这是第一个句子，它有一点长。" * 2, 20, len) == ["这是第一个句子，它有一点长。"] * 2
    assert split_text("好" * 50, 20, len) == ["好" * 20, "好" * 20, "好" * 10]


@pytest.mark.parametrize("limit", range(44, 70))
def test_a_heading_goes_with_its_text(limit: int) -> None:
    """It does not stay behind as the last line of a message."""
    text = "Something said before it.\n\n## The heading\n\nThe text under the heading is here."
    assert not split_text(text, limit, len)[0].endswith("## The heading")


def test_a_little_paragraph_does_not_make_a_message() -> None:
    """A message is filled at least to the half where words allow it."""
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
    """Wherever the limit falls, a link, code or emphasis that fits a message is in one message."""
    text = ("word " * 20)[:before].rstrip() + " " + span + " and more words after it, and more" * 2
    found = split_text(text, 80, len)
    assert any(span in piece for piece in found)
    assert is_whole(text, found)


def test_a_link_longer_than_a_message_is_cut_all_the_same() -> None:
    """Better a broken link than no message."""
    text = "See [this](https://example.com/" + "a" * 300 + ")."
    found = split_text(text, 100, len)
    assert found[0] == "See"
    assert is_whole(text, found)


def test_a_stray_bracket_costs_nothing() -> None:
    """What only looks like the beginning of a link does not keep a message short."""
    text = "An array x[0 and [ then " + "many more words " * 20
    assert len(split_text(text, 100, len)[0]) > 80


def test_a_table_is_cut_between_rows() -> None:
    """Never within one, and its head is not left alone."""
    rows = [f"| row {number} | some value |" for number in range(10)]
    text = "\n".join(["Before the table.", "", "| key | value |", "|---|---|", *rows])
    found = split_text(text, 100, len)
    assert all(line in text.split("\n") for piece in found for line in piece.split("\n"))
    assert not any(piece.endswith(("|---|---|", "| key | value |")) for piece in found)


def test_a_word_of_a_hundred_thousand_characters() -> None:
    """Full messages, nothing lost."""
    found = split_text("x" * 100_000, 2000, len)
    assert [len(piece) for piece in found] == [2000] * 50


def test_white_space_makes_no_message() -> None:
    """Neither at the end nor in the middle, seen or of no width."""
    assert split_text(" \n\n\u200b ", 40, len) == []
    assert split_text("a" * 40 + "\n" * 100, 40, len) == ["a" * 40]
    assert split_text("a" + "\n" * 200 + "b", 40, len) == ["a", "b"]
    assert split_text("a" + "\u200b" * 200 + "b", 40, len)[-1] == "b"
    assert split_text("\n" * 100 + " " * 100 + "b", 40, len) == ["b"]


def test_indentation_survives_a_cut() -> None:
    """A nested item remains nested text."""
    text = "- outer item, some words in it\n  - inner item, some words in it\n    - innermost"
    assert split_text(text, 40, len)[1].startswith("  - inner")


def test_nothing_is_decided_by_white_space_alone() -> None:
    """Trailing white space over the limit gives no rest yet: whatever comes after it decides."""
    assert split_first("a" * 40 + "\n\n", 40, len) == ("a" * 40, "")
    assert split_first("a" * 40 + "\n\nb", 40, len) == ("a" * 40, "b")
    assert split_first("a" * 40 + "\u200b", 40, len) == ("a" * 40, "")
    fits_but_for_its_end = "First paragraph, some words.\n\nThe second"
    assert split_first(fits_but_for_its_end + "\n", 40, len) == (fits_but_for_its_end, "")


def test_a_limit_too_small_is_refused() -> None:
    """There would be no room for fences, nor for one emoji."""
    with pytest.raises(ValueError, match="at least"):
        split_text("text", SMALLEST_LIMIT - 1, len)


def test_work_grows_with_the_text_only() -> None:
    """Each character is measured a bounded number of times, however long the text is."""

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
