"""JSON and JSON lines: keys and types, lengths of lists, and a few values."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from pydantic_core import from_json

from ..formatting import pluralize
from .source import CUT, Findings, Section, Source, one_line, short_value

_MAX_PREFIX = 2_000
_START = re.compile(
    r"(?m)^[ \t]{0,40}(\{\s{0,200}(?:\"|\}\s{0,200}\Z)|\[\s{0,200}(?:[\[{\"]|-?\d|true|false|null|\]\s{0,200}\Z))"
)
_INLINE_START = re.compile(r"[:=>] {0,3}(\{\s{0,200}\"|\[\s{0,200}[{\"\[])")
_MAX_STARTS = 5
_MIN_SHARE = 0.5
_MAX_LINES = 1_500
_MAX_KEYS = 60
"""Different keys of one object. The keys of a larger object are data."""
_MAX_DEPTH = 8
_MAX_SAMPLES = 2
_MAX_SAMPLE_CHARACTERS = 4_000
_FIRST_KEYS = 25
_DECODER = json.JSONDecoder()
_UNREADABLE = (ValueError, RecursionError)


@dataclass(slots=True)
class _Shape:
    """The values at one place, merged over all objects and lists that have it."""

    kinds: Counter[str] = field(default_factory=Counter)
    keys: dict[str, _Shape] = field(default_factory=dict)
    other_keys: int = 0
    items: _Shape | None = None
    shortest: int = -1
    longest: int = -1
    low: float | None = None
    high: float | None = None
    samples: list[str] = field(default_factory=list)

    @property
    def seen(self) -> int:
        return self.kinds.total()

    def add(self, value: Any, depth: int = 0) -> None:
        self.kinds[_kind(value)] += 1
        if isinstance(value, dict):
            for name, child in value.items():
                if name not in self.keys and len(self.keys) >= _MAX_KEYS:
                    self.other_keys += 1
                elif depth < _MAX_DEPTH:
                    self.keys.setdefault(name, _Shape()).add(child, depth + 1)
        elif isinstance(value, list):
            self.shortest = len(value) if self.shortest < 0 else min(self.shortest, len(value))
            self.longest = max(self.longest, len(value))
            if depth < _MAX_DEPTH:
                self.items = self.items or _Shape()
                for item in value:
                    self.items.add(item, depth + 1)
        elif isinstance(value, str):
            sample = value[:_MAX_SAMPLE_CHARACTERS]
            if len(self.samples) < _MAX_SAMPLES and sample not in self.samples:
                self.samples.append(sample)
        elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
            self.low = min(float(value), self.low if self.low is not None else value)
            self.high = max(float(value), self.high if self.high is not None else value)


def read_json(source: Source) -> Findings | None:
    text = CUT.split(source.text, maxsplit=1)[0]
    for start in _starts(text):
        values, end, is_complete = _values(text, start)
        if values and end - start >= len(text.strip()) * _MIN_SHARE:
            facts = [pluralize(len(values), "value")] if len(values) > 1 else []
            if source.is_cut:
                facts.append("cut off: this describes its beginning")
            elif not is_complete:
                facts.append("incomplete: its end is missing")
            around = [f"Before it: {one_line(before)}"] if (before := text[:start].strip()) else []
            if is_complete and (after := text[end:][:2_000].strip()):
                around.append(f"After it: {one_line(after)}")
            return _findings(values, "; ".join(facts), Section.flat("", around))
    return None


def _starts(text: str) -> list[int]:
    head = text[: _MAX_PREFIX + 200]
    found = [match.start(1) for match in _START.finditer(head)][:_MAX_STARTS]
    found += [match.start(1) for match in _INLINE_START.finditer(head)][:1]
    return [start for start in found if start <= _MAX_PREFIX]


def _values(text: str, start: int) -> tuple[list[Any], int, bool]:
    """Return the values from `start` on, where the last one ends, and whether it is complete.

    Further values may follow, each on a new line.
    """
    values: list[Any] = []
    end, following = start, start
    while text[following : following + 1] == text[start] and (not values or "\n" in text[end:following]):
        try:
            value, end = _DECODER.raw_decode(text, following)
        except _UNREADABLE:
            try:
                values.append(from_json(text[following:], allow_partial=True))
            except _UNREADABLE:
                return values, end, bool(values)
            return values, len(text), False
        values.append(value)
        following = end
        while text[following : following + 1].isspace():
            following += 1
    return values, end, bool(values)


def _findings(values: list[Any], facts: str, around: Section) -> Findings:
    shape = _Shape()
    for value in values:
        shape.add(value)
    kind = "JSON" if len(values) == 1 else "JSON lines"
    detailed, brief = (
        Section("", list(islice(_lines(shape, samples=samples), _MAX_LINES))) for samples in (True, False)
    )
    return Findings(kind, facts, [detailed, around], [brief, around])


def _lines(root: _Shape, *, samples: bool) -> Iterator[tuple[int, str]]:
    yield 0, _describe("", root, samples=samples)
    yield from _below(root, 1, samples=samples)


def _below(shape: _Shape, level: int, *, samples: bool) -> Iterator[tuple[int, str]]:
    objects, indent = shape.kinds["object"], "  " * level
    keys_are_data = shape.other_keys > 0
    keys = list(shape.keys.items())[: 5 if keys_are_data else None]
    for number, (name, child) in enumerate(keys):
        often = f" (in {child.seen:,} of {objects:,})" if child.seen < objects and not keys_are_data else ""
        # Keys after the first 25 rank two levels lower: the keys of other objects tell more.
        rank = level if number < _FIRST_KEYS else level + 2
        yield rank, f"{indent}{one_line(name, 60)}: {_describe(name, child, samples=samples)}{often}"
        if not keys_are_data or number == 0:
            yield from _below(child, level + 1, samples=samples)
    if keys_are_data:
        rest = len(shape.keys) + shape.other_keys - len(keys)
        yield level, f"{indent}… and {pluralize(rest, 'more key')}"
    if shape.items is not None:
        yield from _below(shape.items, level, samples=samples)


def _describe(name: str, shape: _Shape, *, samples: bool) -> str:
    """`list of 3 to 5: object`, `text, e.g. "Ada"`, `whole number, 1 to 9 or null`."""
    return " or ".join(_describe_kind(name, kind, shape, samples) for kind in shape.kinds) or "nothing"


def _describe_kind(name: str, kind: str, shape: _Shape, samples: bool) -> str:
    if kind == "object" and shape.seen == 1:
        return f"object with {pluralize(len(shape.keys) + shape.other_keys, 'key')}"
    if kind == "list":
        return _describe_list(name, shape, samples)
    if kind == "text" and samples:
        shown = (f'"{short_value(name, sample)}"' for sample in shape.samples)
        return f"text, e.g. {', '.join(shown)}"
    if not samples or "number" not in kind or shape.low is None or shape.high is None:
        return kind
    low, high = (short_value(name, _number(each)) for each in (shape.low, shape.high))
    return f"{kind}, {low} to {high}" if shape.low != shape.high else f"{kind}, {low}"


def _describe_list(name: str, shape: _Shape, samples: bool) -> str:
    low, high = shape.shortest, shape.longest
    if high <= 0:
        return "empty list"
    length = f"{high:,}" if low == high else f"{low:,} to {high:,}"
    items = _describe(name, shape.items, samples=samples) if shape.items else ""
    return f"list of {length}: {items}" if items else f"list of {length}"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = ((bool, "boolean"), (dict, "object"), (list, "list"), (str, "text"), (int, "whole number"))
    return next((kind for each, kind in kinds if isinstance(value, each)), "number")


def _number(number: float) -> str:
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else f"{number:.6g}"
