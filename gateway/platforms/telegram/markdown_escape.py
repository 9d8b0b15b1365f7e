"""Markdown made safe to render: what the renderer would drop, hide or turn into something else is shown as written.

The renderer leaves out HTML and link definitions, takes `$HOME:$PATH` for a formula and `a || b || c` for a
spoiler. A link to a person would notify them. All of these are escaped with a backslash in the source.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import pyromark

_ROUNDS = 8
"""Escaping one thing may bring another to light, but not for long."""

_SAFE_ADDRESS = re.compile(r"(?:https?://|mailto:|tel:)\S", re.IGNORECASE)
_DEFINITION = re.compile(rb"^[ \t>*+\-0-9.)]*(\[(?:[^\]\\]|\\.){1,200}\]:)", re.MULTILINE)
_BARS = re.compile(rb"(?<![\\|])\|\|(?=[^\s|])[^|\n]*(?<=[^\s\\])\|\|(?!\|)|(?P<stray>\|{2,})")
_MATH = re.compile(r"\\[A-Za-z]|\w\^|\b[A-Za-z]_|\b[A-Za-z]\s*[=<>]|\A\s*\w\s*\Z")
_TEX_INLINE = re.compile(rb"\\\(((?:(?!\n[ \t]*\n).){1,500}?)\\\)", re.DOTALL)
_TEX_BLOCK = re.compile(rb"\\\[((?:(?!\n[ \t]*\n).){1,500}?)\\\]", re.DOTALL)

Range = tuple[int, int]


class NotLiteral(ValueError):
    """The text keeps turning into something else."""


def literal(markdown: str, options: pyromark.Options) -> str:
    """`options`: the ones that the result will be parsed with."""
    source = _with_dollars(markdown.encode(), options)
    for _ in range(_ROUNDS):
        offsets = sorted(
            {offset for offset in _to_escape(source, options) if not _is_escaped(source, offset)}
        )
        if not offsets:
            return source.decode()
        bounds = [0, *offsets, len(source)]
        source = b"\\".join(source[begin:end] for begin, end in pairwise(bounds))
    raise NotLiteral("The Markdown still holds something to escape after all rounds.")


def _with_dollars(source: bytes, options: pyromark.Options) -> bytes:
    """Formulas in TeX's brackets as the parser knows them; in code, brackets are brackets."""
    if b"\\(" not in source and b"\\[" not in source:
        return source

    def converted(text: bytes) -> bytes:
        text = _TEX_BLOCK.sub(lambda found: _formula(found, b"$$"), text)
        return _TEX_INLINE.sub(lambda found: _formula(found, b"$"), text)

    parts = []
    position = 0
    for begin, end in _code(_events(source, options)):
        parts += [converted(source[position:begin]), source[begin:end]]
        position = end
    return b"".join([*parts, converted(source[position:])])


def _formula(found: re.Match[bytes], sign: bytes) -> bytes:
    return sign + found[1].strip() + sign if _MATH.search(found[1].decode()) else found[0]


# -- what to escape ------------------------------------------------------------------------------------------


def _to_escape(source: bytes, options: pyromark.Options) -> Iterator[int]:
    """Offsets of the characters that need a backslash."""
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
            yield from _link(event, source[begin:end], begin)
    yield from _outside(_code(events), _bars_and_definitions(source))


def _link(event: Mapping[str, Any], written: bytes, begin: int) -> Iterator[int]:
    """A link that leads nowhere safe, or that has nothing to click on."""
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


# -- where things stand --------------------------------------------------------------------------------------


def _events(source: bytes, options: pyromark.Options) -> list[tuple[Mapping[str, Any], Range]]:
    """The parser's events that say more than their name, with the bytes they stand for."""
    found = pyromark.events_with_range(source.decode(), options=options)
    return [(event, (place["start"], place["end"])) for event, place in found if isinstance(event, dict)]


def _code(events: Iterable[tuple[Mapping[str, Any], Range]]) -> list[Range]:
    """In order, and never one within another."""
    return [place for event, place in events if "Code" in event or _is_code_block(event.get("Start"))]


def _is_code_block(tag: object) -> bool:
    return isinstance(tag, dict) and "CodeBlock" in tag


def _outside(ranges: list[Range], offsets: Iterable[int]) -> Iterator[int]:
    begins = [begin for begin, _ in ranges]
    for offset in offsets:
        index = bisect_right(begins, offset) - 1
        if index < 0 or offset >= ranges[index][1]:
            yield offset


def _is_escaped(source: bytes, offset: int) -> bool:
    before = source[:offset]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1
