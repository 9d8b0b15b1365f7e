"""Markdown as Telegram entities."""

import re
import socket
from itertools import pairwise

import pytest
from hypothesis import given, settings
from telegram import MessageEntity

from gateway.platforms.telegram.formatting import LIMIT, FormattedText, format_markdown
from gateway.text.unicode import utf16_length
from tests.support.joined_text import split_text
from tests.support.markdown_texts import texts


def shown(markdown: str) -> list[tuple[str, str]]:
    """Return the entities of a text as (kind, covered text)."""
    message = format_markdown(markdown)
    units = message.text.encode("utf-16-le")
    return [
        (entity.type, units[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le"))
        for entity in message.entities
    ]


@pytest.mark.parametrize(
    ("markdown", "text", "entities"),
    [
        ("**bold** and *italic*", "bold and italic", [("bold", "bold"), ("italic", "italic")]),
        ("~~gone~~ ||hidden||", "gone hidden", [("strikethrough", "gone"), ("spoiler", "hidden")]),
        ("😀 `code` 😀", "😀 code 😀", [("code", "code")]),
        ("# Title\n\ntext", "Title\n\ntext", [("bold", "Title")]),
        ("## Use `it` now", "Use it now", [("bold", "Use "), ("code", "it"), ("bold", " now")]),
        ("- a\n- b\n  - c", "• a\n• b\n  • c", []),
        ("3. third\n4. fourth", "3. third\n4. fourth", []),
        ("- [ ] open\n- [x] done", "☐ open\n☑ done", []),
        ("[text](https://e.x)", "text", [("text_link", "text")]),
        ("[`text`](https://e.x)", "text", [("text_link", "text")]),
        ("![alt](https://e.x/i.png)", "🖼 alt", [("text_link", "alt")]),
        ("> said", "said", [("blockquote", "said")]),
        ("> a\n> > b", "a\nb", [("blockquote", "a\nb")]),
        ("```py\nx = 1\n```", "x = 1", [("pre", "x = 1")]),
        ("```mermaid\ngraph TD\n```", "graph TD", [("pre", "graph TD")]),
        (r"\(\frac{a}{b}\) and $\alpha^2$", "a/b and α²", [("code", "a/b"), ("code", "α²")]),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a  b\n─  ─\n1  2", [("pre", "a  b\n─  ─\n1  2")]),
        ("1 &lt; 2 \\* 3", "1 < 2 * 3", []),
    ],
)
def test_markdown_becomes_entities(markdown: str, text: str, entities: list[tuple[str, str]]) -> None:
    """The text has no marks, and entities count in UTF-16 units."""
    assert format_markdown(markdown).text == text
    assert shown(markdown) == entities


def test_the_language_of_code() -> None:
    """Only the language counts, not the file name in the info string."""
    for info in ("python", 'python title="app.py"', "python:app.py"):
        [entity] = format_markdown(f"```{info}\nx\n```").entities
        assert (entity.type, entity.language) == ("pre", "python")


def test_a_long_quotation_can_be_expanded() -> None:
    """A long quotation is collapsed."""
    assert format_markdown("> " + "words " * 100).entities[0].type == "expandable_blockquote"


@pytest.mark.parametrize(
    "markdown",
    [
        "[you](tg://user?id=123456789)",
        "<tg://user?id=123456789>",
        "![👍](tg://emoji?id=5368324170671202286)",
        "[you][1]\n\n[1]: tg://user?id=123456789",
        "[click](javascript:alert(1))",
        "[file](./src/app.py)",
        "[](https://example.com)",
    ],
)
def test_unsafe_links_stay_text(markdown: str) -> None:
    """A link that would notify a person or leads nowhere is shown as text."""
    assert format_markdown(markdown) == FormattedText(markdown)


@pytest.mark.parametrize(
    "markdown",
    [
        "<div>block</div>\n\nand <b>inline</b>",
        "a List<String> of <T>",
        "<!-- comment -->\ntext",
        "<script>\nalert(1)\n\n</script>",
        "if a || b || c then ||",
        "one || two\n\nthree || four",
        "echo $HOME:$PATH and ${A}:${B} for $5 or $6",
        "pid $$ and $$",
        "[note]: this is no definition",
        "[1]: https://example.com",
        "f(x) < g(y) and y > 3",
    ],
)
def test_nothing_is_dropped(markdown: str) -> None:
    """Text that the renderer would drop or misread is shown as written."""
    assert format_markdown(markdown) == FormattedText(markdown)


def test_code_is_not_touched() -> None:
    """Code is unchanged."""
    code = r"List<T> a || b $HOME:$PATH \(\alpha\) [x]: y <br> \[\frac{a}{b}\]"
    assert format_markdown(f"```\n{code}\n```").text == code
    assert format_markdown(f"`{code}`").text == code


def test_the_rest_of_a_list_is_not_code() -> None:
    """The second half of a nested list or of its code block does not become indented code."""
    assert format_markdown("    - inner\n    - more\n- outer") == FormattedText("• inner\n• more\n• outer")
    assert shown("    ```py\n    x = 1\n      y\n    ```\n- outer") == [("pre", "x = 1\n  y")]


def test_over_the_limit_plain_text_is_sent() -> None:
    """A text that is too long once formatted is sent as written."""
    rows = "\n".join(f"|{number}|" * 3 for number in range(300))
    table = f"| a rather long heading | another long heading | one more |\n|-|-|-|\n{rows}"
    table = table[: table.rindex("\n", 0, LIMIT)]
    message = format_markdown(table)
    assert utf16_length(message.text) <= LIMIT
    assert all(f"{number}" in message.text for number in range(200))


def test_no_more_entities_than_telegram_takes() -> None:
    """Of more than a hundred entities, links and code outrank bold words."""
    message = format_markdown("**b** " * 150 + "[link](https://e.x) `code`")
    kinds = [entity.type for entity in message.entities]
    assert len(kinds) == 100
    assert {"text_link", "code"} < set(kinds)


def test_lone_surrogates_are_replaced() -> None:
    """A lone surrogate is replaced; a pair in two halves is joined."""
    assert format_markdown("a \ud83d b").text == "a \ufffd b"
    assert format_markdown("a \ud83d\ude00 b").text == "a 😀 b"


@pytest.mark.parametrize("markdown", ["```\n```", "", "   ", "# ", "\u200b"])
def test_something_is_always_sent(markdown: str) -> None:
    """A text that would be empty once formatted is unchanged."""
    assert format_markdown(markdown) == FormattedText(markdown)


def test_no_connection_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Diagrams and images are not fetched."""

    def refused(*_: object) -> None:
        raise AssertionError("formatting must not use the network")

    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    assert shown("```mermaid\ngraph TD\n  A-->B\n```\n\n![i](https://e.x/i.png)")


@given(texts)
@settings(max_examples=120, deadline=None)
def test_any_text_becomes_a_message_that_telegram_takes(markdown: str) -> None:
    """The message is within the limits, and its entities lie within the text and nest correctly."""
    for piece in split_text(markdown, LIMIT, utf16_length):
        message = format_markdown(piece)
        assert 0 < utf16_length(message.text.strip()) <= LIMIT
        assert len(message.entities) <= 100
        for entity in message.entities:
            assert entity.length > 0
            assert 0 <= entity.offset <= entity.offset + entity.length <= utf16_length(message.text)
        for one, other in pairwise(message.entities):
            _check_nesting(one, other)


def _check_nesting(one: MessageEntity, other: MessageEntity) -> None:
    """Check two entities; `one` begins first, or is the longer."""
    end, other_end = one.offset + one.length, other.offset + other.length
    if other.offset < end:
        assert other_end <= end
        assert one.type not in ("pre", "code")
        assert one.type != other.type


@given(texts)
@settings(max_examples=120, deadline=None)
def test_every_word_is_shown(markdown: str) -> None:
    """Every word is in the text or in the URL of a link, except words beside a fence."""
    message = format_markdown(markdown[:2000])
    everything = " ".join([message.text, *(entity.url or "" for entity in message.entities)])
    said = re.sub(r"^\W*?(?:```|~~~).*$|&amp;", "", markdown[:2000], flags=re.MULTILINE)
    for word in re.findall(r"[^\W_]{2,}", said):
        assert word in everything
