"""HTML as text."""

from __future__ import annotations

import pytest

from agent.tools.fetch_url import html_to_text
from tests.support.growth import grows_too_fast, repeated


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("", ""),
        ("plain", "plain"),
        ("a &amp; b &lt;c&gt; &eacute; &", "a & b <c> é &"),
        ("<p>one   two\n three</p><p>four", "one two three\n\nfour"),
        ("a<br>b<div>c</div>d", "a\nb\nc\nd"),
        ("<h2>Title <b>bold</b></h2>text", "## Title bold\n\ntext"),
        ("<ul><li>one<li>two</ul>", "- one\n- two"),
        ("<table><tr><th>a</th><th>b</th></tr><tr><td>1<td>2</table>", "| a | b\n| 1 | 2"),
        ("<pre>def f():\n    return 1\n</pre>x", "def f():\n    return 1\n\nx"),
        ("<a href='b?x=1&amp;y'>link</a>", "[link](https://x.org/d/b?x=1&y)"),
        ("<a href='#top'>up</a> <a href='javascript:x()'>run</a> <a href='http://[x'>odd</a>", "up run odd"),
        ("before <a href='/empty'><img></a>after", "before after"),
        ("<a href='/a'>one <a href='/b'>two", "[one ](https://x.org/a)[two"),
        ("<img alt='a cat'> <img>", "[image: a cat]"),
        ("x<script>if (a < b) y()</script><style>p{}</style><svg><text>z</text></svg>w", "xw"),
        ("a<!-- hidden -->b<!doctype html>c", "abc"),
        ("text <b", "text"),
        ("x</div></p></svg></pre>y", "x\n\ny"),
    ],
)
def test_html_becomes_text(html: str, text: str) -> None:
    """Structure is kept lightly, the rest is dropped; broken markup is borne."""
    assert html_to_text(html, base_url="https://x.org/d/") == text


def test_a_tag_at_the_end_of_a_slice() -> None:
    """Long pages are read in slices; nothing is lost or doubled where they meet."""
    html = "".join(f"<p>paragraph &amp; <b>{number}</b></p>" for number in range(10_000))
    expected = "\n\n".join(f"paragraph & {number}" for number in range(10_000))
    assert html_to_text(html, seconds=60) == expected


def test_inline_pictures_are_no_obstacle() -> None:
    """A picture inside a page makes a very long tag; what follows is still read."""
    assert html_to_text(f"<img src='data:image/png;base64,{'A' * 1_000_000}'>after") == "after"


def test_a_declaration_that_the_parser_refuses_ends_the_text() -> None:
    """The parser of the standard library asserts where it should not; what came before is kept."""
    assert html_to_text("<p>before</p><![[x<p>after") == "before"


def test_a_tag_without_end_is_given_up() -> None:
    """Reading further would scan all of it repeatedly and block other work."""
    assert html_to_text(f"before<a {'x ' * 200_000}>after") == "before"


@pytest.mark.parametrize("piece", ["<", "<a ", "<!--", "</", "<p>", "&#", "<a b='c' ", "<svg>"])
def test_the_time_for_a_hostile_page_grows_with_its_length(piece: str) -> None:
    """Not with the square of its length, also over many slices."""
    page = repeated(piece)
    assert not grows_too_fast(lambda html: html_to_text(html, seconds=60), lambda length: page(50 * length))


def test_a_long_page_is_read_until_its_time_is_over() -> None:
    """Only the first slice is read if no time is left after it."""
    page = "<p>word</p>" * 200_000
    text = html_to_text(page, seconds=0)
    assert text.startswith("word\n\nword")
    assert len(text) < len(html_to_text(page[: len(page) // 10], seconds=60))
