"""Renders Markdown from models as safe HTML: no raw HTML, no images, only absolute links."""

from __future__ import annotations

import re
from collections.abc import MutableMapping, Sequence
from functools import lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

_MAX_LENGTH = 200_000
_MAX_MARKS = 20_000
"""Longer texts are shown as plain text, because parsing them takes seconds: a microsecond per letter and ten per
Markdown character. One in ten characters of ordinary text is a Markdown character."""
_MARK = re.compile(r"[*_`~\[\]()|!\\<>&#+\n-]")

_LINK_SCHEMES = ("http://", "https://", "mailto:")


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        """Allow only known schemes; a relative link would point into the API."""
        return url.strip().lower().startswith(_LINK_SCHEMES)


class _Renderer(RendererHTML):
    """Overrides render rules, which are named after tokens and get all tokens and their own position."""

    def link_open(self, tokens: Sequence[Token], at: int, options: Any, env: MutableMapping[str, Any]) -> str:
        tokens[at].attrSet("target", "_blank")
        tokens[at].attrSet("rel", "noopener noreferrer nofollow")
        return self.renderToken(tokens, at, options, env)

    def fence(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        words = tokens[idx].info.split()
        return _code(tokens[idx].content, language=words[0] if words else "")

    def code_block(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return _code(tokens[idx].content)

    def table_open(self, *_: object) -> str:
        return '<div class="table"><table>'

    def table_close(self, *_: object) -> str:
        return "</table></div>"

    def th_open(self, tokens: Sequence[Token], at: int, options: Any, env: MutableMapping[str, Any]) -> str:
        """Replace the style attribute, which the content security policy forbids, by a class."""
        style = str(tokens[at].attrs.pop("style", ""))
        if style.startswith("text-align:"):
            tokens[at].attrSet("class", style.removeprefix("text-align:"))
        return self.renderToken(tokens, at, options, env)

    td_open = th_open


# Line breaks are kept: an answer appears as plain text while it arrives, and its lines should stay in place.
# Images are off: the URL of an image could leak the conversation to a foreign server.
_PARSER = (
    _Parser("commonmark", {"html": False, "breaks": True}, renderer_cls=_Renderer)
    .enable(["table", "strikethrough"])
    .disable("image")
)


def render_markdown(text: str) -> Markup:
    """Render Markdown as HTML. A long answer takes milliseconds: call this in a thread."""
    if len(text) > _MAX_LENGTH or len(_MARK.findall(text)) > _MAX_MARKS:
        return Markup("<pre>{}</pre>").format(text)
    return Markup(_PARSER.render(text))  # noqa: S704  the renderer escapes all text


render_markdown_cached = lru_cache(maxsize=512)(render_markdown)
"""For finished answers, which are rendered again and again."""


def _code(content: str, language: str = "") -> str:
    return Markup(
        '<div class="code"><div class="code-bar"><span>{}</span>'
        '<button type="button" class="copy">Copy</button></div>'
        '<pre tabindex="0"><code>{}</code></pre></div>\n'
    ).format(language, escape(content))
