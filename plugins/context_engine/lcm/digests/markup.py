"""HTML and XML: the title, the headings, and what the rest is made of.

By bounded steps instead of a parser: pages are broken in every way.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from itertools import islice

from .prose import plain_sections
from .room import Findings, Section
from .source import Source
from .values import counted, one_line

_LOOKED_AT = 2_000_000
_MOST_TAGS = 200_000
_MOST_HEADINGS = 500
_LONGEST_HEADING = 400
_PAGE = re.compile(
    r"\s{0,200}(?:<!--.{0,2000}?-->\s{0,200})?<(?:!doctype html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_XML = re.compile(
    r"\s{0,200}(?:<\?xml\b|<!DOCTYPE )|\s{0,200}<([A-Za-z][\w:.-]{0,60})(?=[\s>])[^<>]{0,2000}>"
)
_TAG = re.compile(r"<([A-Za-z][\w:.-]{0,60})(?=[\s/>])")
_BLOCK = re.compile(r"<(title|h[1-6])\b[^<>]{0,500}>", re.IGNORECASE)
_ANY_TAG = re.compile(r"<[^<>]{0,2000}>")
_UNSEEN = re.compile(r"<(script|style|svg|noscript)\b[^<>]{0,500}>", re.IGNORECASE)
_COUNTED = {"a": "link", "form": "form", "table": "table", "img": "image", "script": "script"}
_FRAGMENT_TAGS = frozenset(
    ("div", "p", "span", "a", "ul", "li", "table", "tr", "td", "h1", "h2", "h3", "section", "form")
)
_PART_OF_A_PAGE = 10
_SHOWN_TEXT = 1_500


def read_markup(source: Source) -> Findings | None:
    text = source.text[:_LOOKED_AT]
    if _PAGE.match(text):
        return _page(source, text)
    beginning = _XML.match(text)
    if beginning is None:
        return None
    tags = _tags(text)
    if beginning[1] is None or "xml" in source.extensions:
        return _xml(source, tags)
    if sum(tags[name] for name in _FRAGMENT_TAGS) >= _PART_OF_A_PAGE:
        return _page(source, text)
    # A text may well begin with a tag of its own making.
    closed = source.text.rstrip()[-200:].endswith(f"</{beginning[1]}>")
    return _xml(source, tags) if closed and sum(tags.values()) >= 3 else None


def _tags(text: str) -> Counter[str]:
    return Counter(match[1] for match in islice(_TAG.finditer(text), _MOST_TAGS))


def _page(source: Source, text: str) -> Findings:
    title, headings = _headings(source, text)
    tags = Counter[str]()
    for name, number in _tags(text).items():
        tags[name.lower()] += number
    facts = ", ".join(counted(tags[name], what) for name, what in _COUNTED.items() if tags[name])
    words = _words(text)
    sections = [
        Section.flat("", [f"Title: {title}"] if title else []),
        Section("Headings:", headings),
        Section.flat("Text:", [words] if words else []),
    ]
    return Findings("HTML", facts, sections if title or headings or words else plain_sections(source))


def _headings(source: Source, text: str) -> tuple[str, list[tuple[int, str]]]:
    title, headings = "", list[tuple[int, str]]()
    line, counted_to = 0, 0
    for found in islice(_BLOCK.finditer(text), _MOST_HEADINGS):
        name = found[1].lower()
        inside = text[found.end() : found.end() + _LONGEST_HEADING]
        inside = re.split(rf"</{name}|<h[1-6]", inside, maxsplit=1, flags=re.IGNORECASE)[0]
        words = one_line(html.unescape(_ANY_TAG.sub(" ", inside)), 120)
        if not words:
            continue
        if name == "title":
            title = title or words
            continue
        line += text.count("\n", counted_to, found.start())
        counted_to = found.start()
        depth = int(name[1])
        headings.append((depth, f"{'  ' * (depth - 1)}{source.line_number(line)}: {words}"))
    return title, headings


def _words(text: str) -> str:
    """The beginning of what a reader of the page sees."""
    body = re.search(r"<body\b", text, re.IGNORECASE)
    position = body.start() if body else 0
    shown: list[str] = []
    length = 0
    for _ in range(200):
        unseen = _UNSEEN.search(text, position)
        piece = text[position : min(unseen.start() if unseen else len(text), position + 40_000)]
        words = " ".join(html.unescape(_ANY_TAG.sub(" ", piece)).split())
        shown.append(words)
        length += len(words)
        if unseen is None or length >= _SHOWN_TEXT:
            break
        end = text.find(f"</{unseen[1]}", unseen.end())
        if end < 0:
            break
        position = end
    return one_line(" ".join(filter(None, shown)).lstrip("> "), _SHOWN_TEXT)


def _xml(source: Source, tags: Counter[str]) -> Findings:
    elements = [f"{name}: {number:,}" for name, number in tags.most_common(60)]
    facts = counted(sum(tags.values()), "element")
    root = next(iter(tags), "")
    return Findings(
        "XML",
        facts,
        [
            Section.flat("", [f"The outermost element is {root}"] if root else []),
            Section.flat("Elements:", elements),
            *plain_sections(source),
        ],
    )
