"""Escapes Markdown that the renderer would drop, hide or misread, so that it appears as written.

The renderer drops HTML and link definitions, reads `$HOME:$PATH` as a formula and `a || b || c` as a spoiler. A link
to a person would notify them. All of these get a backslash in the source.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import pyromark

_MAX_ROUNDS = 8
"""Escaping one construct can reveal another; a few rounds suffice."""

_SAFE_ADDRESS = re.compile(r"(?:https?://|mailto:|tel:)\S", re.IGNORECASE)
_DEFINITION = re.compile(rb"^[ \t>*+\-0-9.)]*(\[(?:[^\]\\]|\\.){1,200}\]:)", re.MULTILINE)
_BARS = re.compile(rb"(?<![\\|])\|\|(?=[^\s|])[^|\n]*(?<=[^\s\\])\|\|(?!\|)|(?P<stray>\|{2,})")
_MATH = re.compile(r"\\[A-Za-z]|\w\^|\b[A-Za-z]_|\b[A-Za-z]\s*[=<>]|\A\s*\w\s*\Z")
_TEX_INLINE = re.compile(rb"\\\(((?:(?!\n[ \t]*\n).){1,500}?)\\\)", re.DOTALL)
_TEX_BLOCK = re.compile(rb"\\\[((?:(?!\n[ \t]*\n).){1,500}?)\\\]", re.DOTALL)

Range = tuple[int, int]


class EscapeFailed(ValueError):
    """The text still needs escaping after the last round."""


def escape_markdown(markdown: str, options: pyromark.Options) -> str:
    """Escape `markdown`; `options` are those that the result is parsed with."""
    source = _convert_tex_brackets(markdown.encode(), options)
    for _ in range(_MAX_ROUNDS):
        offsets = sorted(
            {offset for offset in _offsets_to_escape(source, options) if not _is_escaped(source, offset)}
        )
        if not offsets:
            return source.decode()
        bounds = [0, *offsets, len(source)]
        source = b"\\".join(source[begin:end] for begin, end in pairwise(bounds))
    raise EscapeFailed("The Markdown still needs escaping after all rounds.")


def _convert_tex_brackets(source: bytes, options: pyromark.Options) -> bytes:
    """Convert TeX brackets around formulas to dollar signs, except in code."""
    if b"\\(" not in source and b"\\[" not in source:
        return source

    def convert(text: bytes) -> bytes:
        text = _TEX_BLOCK.sub(lambda found: _formula(found, b"$$"), text)
        return _TEX_INLINE.sub(lambda found: _formula(found, b"$"), text)

    parts = []
    position = 0
    for begin, end in _code(_events(source, options)):
        parts += [convert(source[position:begin]), source[begin:end]]
        position = end
    return b"".join([*parts, convert(source[position:])])


def _formula(found: re.Match[bytes], sign: bytes) -> bytes:
    return sign + found[1].strip() + sign if _MATH.search(found[1].decode()) else found[0]


# -- what to escape


def _offsets_to_escape(source: bytes, options: pyromark.Options) -> Iterator[int]:
    """Yield the offsets of characters that need a backslash."""
    events = _events(source, options)
    for event, (begin, end) in events:
        if event == {"Start": "HtmlBlock"}:
            yield from (begin + found.start() for found in re.finditer(b"<", source[begin:end]))
        elif "InlineHtml" in event:
            yield begin
        elif "InlineMath" in event and not _MATH.search(event["InlineMath"]):
            yield from (begin, end - 1)
        elif "DisplayMath" in event and not _MATH.search(event["DisplayMath"]):
            yield from (begin, begin + 1, end - 2, end - 1)
        else:
            yield from _unsafe_link(event, source[begin:end], begin)
    yield from _outside_ranges(_code(events), _bars_and_definitions(source))


def _unsafe_link(event: Mapping[str, Any], written: bytes, begin: int) -> Iterator[int]:
    """Yield the offset of a link with an unsafe address or without text."""
    start = event.get("Start")
    if not isinstance(start, dict) or not ("Link" in start or "Image" in start):
        return
    target = (start.get("Link") or start["Image"])["dest_url"]
    is_empty = written.startswith((b"[](", b"![]("))
    if is_empty or not _SAFE_ADDRESS.match(target):
        yield begin + written.startswith(b"!")


def _bars_and_definitions(source: bytes) -> Iterator[int]:
    for bars in _BARS.finditer(source):
        if bars["stray"]:
            yield from range(bars.start(), bars.end())
    for definition in _DEFINITION.finditer(source):
        yield definition.start(1)


# -- positions


def _events(source: bytes, options: pyromark.Options) -> list[tuple[Mapping[str, Any], Range]]:
    """Return the parser's events that carry data, with their byte ranges."""
    found = pyromark.events_with_range(source.decode(), options=options)
    return [(event, (place["start"], place["end"])) for event, place in found if isinstance(event, dict)]


def _code(events: Iterable[tuple[Mapping[str, Any], Range]]) -> list[Range]:
    """Return the ranges of code, in order and without nesting."""
    return [place for event, place in events if "Code" in event or _is_code_block(event.get("Start"))]


def _is_code_block(tag: object) -> bool:
    return isinstance(tag, dict) and "CodeBlock" in tag


def _outside_ranges(ranges: list[Range], offsets: Iterable[int]) -> Iterator[int]:
    begins = [begin for begin, _ in ranges]
    for offset in offsets:
        index = bisect_right(begins, offset) - 1
        if index < 0 or offset >= ranges[index][1]:
            yield offset


def _is_escaped(source: bytes, offset: int) -> bool:
    before = source[:offset]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1
