"""Every page that a person reads, taken apart: headings, links, code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
HISTORY = ROOT / "CHANGELOG.md"
"""It tells of what once was."""
TODAY = [page for page in PAGES if page != HISTORY]

_NOT_RUN = re.compile(r"<!-- not run: (.+?) -->")
_ADDRESS = re.compile(r"""<(?:img|source|a)\b[^>]*?\b(?:src|srcset|href)="([^"]+)""")
_PARSER = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str
    """Why it cannot be run; from a comment in front of it."""

    @property
    def where(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def tokens(page: Path) -> list[Token]:
    return _PARSER.parse(page.read_text(encoding="utf-8"))


def blocks(page: Path) -> Iterator[Block]:
    reason = ""
    for token in tokens(page):
        if token.type == "html_block" and (found := _NOT_RUN.search(token.content)):
            reason = found[1]
        elif token.type == "fence":
            assert token.map is not None
            yield Block(page, token.map[0] + 1, token.info.strip(), token.content, reason)
            reason = ""


def spans(page: Path) -> Iterator[str]:
    """Return the code spans of a line."""
    for child in _inline(page):
        if child.type == "code_inline":
            yield child.content


def links(page: Path) -> Iterator[str]:
    """Return the targets of links and images, in Markdown and HTML."""
    for child in _inline(page):
        if child.type in ("link_open", "image"):
            yield str(child.attrs["href" if child.type == "link_open" else "src"])
        elif child.type == "html_inline":
            yield from _ADDRESS.findall(child.content)
    for token in tokens(page):
        if token.type == "html_block":
            yield from _ADDRESS.findall(token.content)


def anchors(page: Path) -> set[str]:
    """Return the anchors that Markdown viewers make from headings."""
    seen: dict[str, int] = {}
    found = set()
    for heading, inline in zip(tokens(page), tokens(page)[1:], strict=False):
        if heading.type == "heading_open":
            children = inline.children or []
            text = "".join(child.content for child in children if child.type in ("text", "code_inline"))
            slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            count = seen.get(slug, 0)
            seen[slug] = count + 1
            found.add(f"{slug}-{count}" if count else slug)
    return found


def tables(page: Path) -> Iterator[list[list[str]]]:
    """Rows of cells as they are written, without the head."""
    rows: list[list[str]] = []
    for token in tokens(page):
        if token.type == "tbody_open":
            rows = []
        elif token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows:
            rows[-1].append(token.content)
        elif token.type == "tbody_close":
            yield rows
            rows = []


def _inline(page: Path) -> Iterator[Token]:
    for token in tokens(page):
        yield from token.children or ()
