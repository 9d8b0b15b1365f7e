"""Markdown from a model becomes HTML that can do nothing."""

from __future__ import annotations

import re

import pytest

from gateway.platforms.web.markdown import render_markdown


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("**bold** and *soft*", "<strong>bold</strong> and <em>soft</em>"),
        ("- one\n- two", "<li>one</li>"),
        ("`a < b`", "<code>a &lt; b</code>"),
        ("one\ntwo", "one<br />"),
        ("~~no~~", "<s>no</s>"),
        ("|a|b|\n|-|-:|\n|1|2|", '<td class="right">2</td>'),
        ("    indented <b>", "<code>indented &lt;b&gt;"),
    ],
)
def test_the_usual_markup_is_rendered(text: str, html: str) -> None:
    """What models write every day."""
    assert html in render_markdown(text)


def test_code_keeps_its_language_and_is_escaped() -> None:
    """A fence shows its language and a copy button; neither language nor code can break out."""
    html = render_markdown('```py"><i>\nx < 1\n```')
    assert "<span>py&#34;&gt;&lt;i&gt;</span>" in html
    assert "<code>x &lt; 1\n</code>" in html


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "a <b onclick='x'>b</b>",
        '[x](https://e.org "\\"onclick=alert(1)")',
        '<https://e.org/"onclick=alert(1)>',
        '![x](https://e.org/"onerror=alert(1))',
    ],
)
def test_raw_html_stays_text(text: str) -> None:
    """The model cannot add a tag or an attribute."""
    html = render_markdown(text)
    assert not {"<script", "<img", "<b"} & set(re.findall(r"<\w+", html))
    assert not re.search(r"<[^>]*[\s\"']on\w+=", html)


@pytest.mark.parametrize(
    "target",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc",
        "/api/x",
        "//e.org",
    ],
)
def test_only_plain_links_become_links(target: str) -> None:
    """An allow-list of schemes; relative ones would lead into our own API."""
    assert "<a " not in render_markdown(f"[x]({target})")
    assert "<a " not in render_markdown(f"[x]: {target}\n\n[x]")


def test_links_open_apart_and_tell_nothing() -> None:
    """The other site learns neither where the reader came from nor gets a handle on the page."""
    html = render_markdown("[x](https://e.org/a?b=1&c=2)")
    assert 'href="https://e.org/a?b=1&amp;c=2"' in html
    assert 'target="_blank" rel="noopener noreferrer nofollow"' in html


def test_an_image_is_only_a_link() -> None:
    """Loading it would tell a stranger's server what the model put into the address."""
    html = render_markdown("![what was said](https://e.org/?q=secret)")
    assert "<img" not in html
    assert "<a " in html


def test_a_huge_text_is_shown_plain() -> None:
    """Parsing would take seconds; the text is still escaped."""
    html = render_markdown("<i>*x*" * 40_000)
    assert html.startswith("<pre>&lt;i&gt;*x*")


@pytest.mark.parametrize("marks", ["**a ", "|-|", "a\n", "[", "- a\n", "&"])
def test_a_text_of_nothing_but_marks_is_shown_plain(marks: str) -> None:
    """The parser would take seconds for it; a long text of words, and long code, are rendered."""
    assert render_markdown(marks * 25_000).startswith("<pre>")
    assert "<strong>end</strong>" in render_markdown("A sentence of words, and so on. " * 4_000 + "**end**")


def test_no_style_attribute_is_written() -> None:
    """The content security policy forbids them, and a browser would complain for each."""
    assert "style=" not in render_markdown("|a|\n|:-:|\n|1|")
