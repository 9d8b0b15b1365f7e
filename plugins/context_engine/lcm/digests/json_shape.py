"""JSON and JSON lines: keys and types, lengths of lists, and a few values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from .json_scan import Scan, Shape, scan_json
from .room import Findings, Section
from .source import CUT, Source
from .values import counted, one_line, value

_LONGEST_BEFORE = 2_000
"""Characters of other text that may stand before it."""
_BEGINNING = re.compile(
    r"(?m)^[ \t]{0,40}(\{\s{0,200}(?:\"|\}\s{0,200}\Z)|\[\s{0,200}(?:[\[{\"]|-?\d|true|false|null|\]\s{0,200}\Z))"
)
_INLINE = re.compile(r"[:=>] {0,3}(\{\s{0,200}\"|\[\s{0,200}[{\"\[])")
_LEAST_SHARE = 0.5
"""Of the text that must be JSON."""
_MOST_STARTS = 5
_SHOWN_KEYS = 25
_SHOWN_SAMPLES = 2


def read_json(source: Source) -> Findings | None:
    text = source.text
    cut = CUT.search(text)
    whole = text[: cut.start()] if cut else text
    for start in _starts(whole):
        scan = scan_json(whole, start)
        # What could not be followed to its end is only JSON if there was nothing in it that is not.
        to_the_end = scan.complete or scan.end >= len(whole.rstrip())
        if scan.ran_out or (to_the_end and scan.end - start >= len(whole.strip()) * _LEAST_SHARE):
            return _findings(whole, start, scan, was_cut=cut is not None)
    return None


def _starts(text: str) -> list[int]:
    found = [match.start(1) for match in _BEGINNING.finditer(text[: _LONGEST_BEFORE + 200])]
    inline = [match.start(1) for match in _INLINE.finditer(text[: _LONGEST_BEFORE + 200])]
    return [start for start in (*found[:_MOST_STARTS], *inline[:1]) if start <= _LONGEST_BEFORE]


def _findings(text: str, start: int, scan: Scan, *, was_cut: bool) -> Findings:
    kind = "JSON" if scan.roots <= 1 else "JSON lines"
    facts = [counted(scan.roots, "value")] if scan.roots > 1 else []
    if not scan.complete and not scan.ran_out:
        facts.append("cut off" if was_cut else "incomplete: its end is missing")
    if scan.ran_out:
        facts.append("keys and values as in its beginning")
    around = []
    if before := text[:start].strip():
        around.append(f"Before it: {one_line(before)}")
    if scan.complete and (after := text[scan.end :][:2_000].strip()):
        around.append(f"After it: {one_line(after)}")
    return Findings(
        kind,
        "; ".join(facts),
        [Section("", list(_lines(scan.shape, samples=True))), Section.flat("", around)],
        [Section("", list(_lines(scan.shape, samples=False))), Section.flat("", around)],
    )


def _lines(root: Shape, *, samples: bool) -> Iterator[tuple[int, str]]:
    yield 0, _described("", root, samples=samples)
    yield from _below(root, 1, samples=samples)


def _below(shape: Shape, level: int, *, samples: bool) -> Iterator[tuple[int, str]]:
    """The keys of the objects here; those of the elements, if these are lists."""
    if level > 10:
        return
    objects = shape.kinds.get("object", 0)
    indent = "  " * level
    keys = list(shape.keys.items())
    as_data = shape.other_keys > 0
    for name, child in keys[: 5 if as_data else len(keys)]:
        often = f" (in {child.seen:,} of {objects:,})" if 0 < child.seen < objects and not as_data else ""
        # Keys behind the first ones count as one level deeper: those of other objects tell more.
        rank = level if keys.index((name, child)) < _SHOWN_KEYS else level + 2
        title = one_line(name, 60)
        yield rank, f"{indent}{title}: {_described(name, child, samples=samples)}{often}"
        if not as_data or name == keys[0][0]:
            yield from _below(child, level + 1, samples=samples)
    if as_data:
        rest = len(keys) - 5 + shape.other_keys
        yield level, f"{indent}… and {counted(rest, 'more key')}"
    if shape.items is not None:
        yield from _below(shape.items, level, samples=samples)


def _described(name: str, shape: Shape, *, samples: bool) -> str:
    """`list of 3 to 5 objects`, `text, e.g. "Ada"`, `whole number, 1 to 9, or null`."""
    kinds = [_one_kind(name, kind, shape, samples) for kind in shape.kinds]
    return " or ".join(kinds) or "nothing"


def _one_kind(name: str, kind: str, shape: Shape, samples: bool) -> str:
    if kind == "object" and shape.seen == 1:
        size = len(shape.keys) + shape.other_keys
        return f"object with {counted(size, 'key')}"
    if kind == "list":
        return _list(name, shape, samples)
    if not samples:
        return kind
    if kind == "text" and shape.samples:
        return f"text, e.g. {', '.join(_sample(name, each) for each in shape.samples[:_SHOWN_SAMPLES])}"
    if kind not in ("number", "whole number") or shape.low is None or shape.high is None:
        return kind
    if shape.low != shape.high:
        return f"{kind}, {value(name, _number(shape.low))} to {value(name, _number(shape.high))}"
    return f"{kind}, {value(name, _number(shape.low))}"


def _list(name: str, shape: Shape, samples: bool) -> str:
    low, high = shape.shortest, shape.longest
    length = f"{high:,}" if low == high else f"{low:,} to {high:,}"
    if shape.at_least:
        length = f"at least {high:,}"
    if shape.items is None or not shape.items.kinds or high <= 0:
        return "empty list" if high <= 0 else f"list of {length}"
    items = _described(name, shape.items, samples=samples)
    return f"list of {length}: {items}"


def _number(number: float) -> str:
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return f"{number:.6g}"


def _sample(name: str, token: str) -> str:
    try:
        text = json.loads(token)
    except ValueError:
        text = token.strip('"')
    return f'"{value(name, str(text))}"'
