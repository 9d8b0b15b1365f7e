"""Markdown from models, as HTML that can do nothing: no raw HTML, no images, only plain links."""

from __future__ import annotations

import re
from collections.abc import MutableMapping, Sequence
from functools import lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

_LONGEST = 200_000
_MOST_MARKS = 20_000
"""Beyond these the text is shown as it is, for parsing it would take seconds: the parser takes a microsecond for a
letter and ten for a character that may mean something. Ordinary text has one such in ten."""
_MARK = re.compile(r"[*_`~\[\]()|!\\<>&#+\n-]")

_LINK_SCHEMES = ("http://", "https://", "mailto:")


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        """An allow-list, and no relative links: they would lead into the API."""
        return url.strip().lower().startswith(_LINK_SCHEMES)


class _Renderer(RendererHTML):
    """Rules are named after tokens; each gets the tokens and its own position."""

    def link_open(self, tokens: Sequence[Token], at: int, options: Any, env: MutableMapping[str, Any]) -> str:
        tokens[at].attrSet("target", "_blank")
        tokens[at].attrSet("rel", "noopener noreferrer nofollow")
        return self.renderToken(tokens, at, options, env)

    def fence(self, tokens: Sequence[Token], at: int, options: Any, env: MutableMapping[str, Any]) -> str:
        words = tokens[at].info.split()
        return _code(tokens[at].content, language=words[0] if words else "")

    def code_block(
        self, tokens: Sequence[Token], at: int, options: Any, env: MutableMapping[str, Any]
    ) -> str:
        return _code(tokens[at].content)

    def table_open(
        self, tokens: Sequence[Token], at: int, options: Any, env: MutableMapping[str, Any]
    ) -> str:
        return '<div class="table"><table>'

    def table_close(
        self, tokens: Sequence[Token], at: int, options: Any, env: MutableMapping[str, Any]
    ) -> str:
        return "</table></div>"

    def th_open(self, tokens: Sequence[Token], at: int, options: Any, env: MutableMapping[str, Any]) -> str:
        _align_by_class(tokens[at])
        return self.renderToken(tokens, at, options, env)

    def td_open(self, tokens: Sequence[Token], at: int, options: Any, env: MutableMapping[str, Any]) -> str:
        return self.th_open(tokens, at, options, env)


# Line breaks are kept: an answer is shown as plain text while it arrives, and its lines should stay in place.
# Images are off: an address made up by a model could carry what was said to a stranger's server.
_PARSER = (
    _Parser("commonmark", {"html": False, "breaks": True}, renderer_cls=_Renderer)
    .enable(["table", "strikethrough"])
    .disable("image")
)


def render_markdown(text: str) -> Markup:
    """The text as HTML. Takes milliseconds for a long answer: call it in a thread."""
    if len(text) > _LONGEST or len(_MARK.findall(text)) > _MOST_MARKS:
        return Markup("<pre>{}</pre>").format(text)
    return Markup(_PARSER.render(text))  # noqa: S704  the renderer escapes everything it is given


render_markdown_cached = lru_cache(maxsize=512)(render_markdown)
"""For finished answers, which are drawn again and again."""


def _align_by_class(cell: Token) -> None:
    """The library writes a style attribute, which the content security policy forbids."""
    style = str(cell.attrs.pop("style", ""))
    if style.startswith("text-align:"):
        cell.attrSet("class", style.removeprefix("text-align:"))


def _code(content: str, language: str = "") -> str:
    return Markup(
        '<div class="code"><div class="code-bar"><span>{}</span>'
        '<button type="button" class="copy">Copy</button></div>'
        '<pre tabindex="0"><code>{}</code></pre></div>\n'
    ).format(language, escape(content))
