"""Reads the shape of JSON without building what it describes: in one pass, with bounds, and also where it was cut.

A parser would need many times the memory of the text, stops at the first fault, and cannot go deep.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MOST_TOKENS = 120_000
"""Brackets, commas, keys and values that are read. Behind them only the elements of the outermost list are counted."""
_MOST_BRACKETS = 400_000
_MOST_SHAPES = 1_500
_MOST_KEYS = 60
"""Different keys of one object. One with more is a table, and its keys are data."""
_DEEPEST = 8
_LONGEST_KEY = 80
_LONGEST_SAMPLE = 4_000
_MOST_SAMPLES = 3
_STRING = r'"(?:[^"\\\n]++|\\.)*+"?'
_TOKEN = re.compile(rf'{_STRING}|[\[\]{{}},:]|[^\s"\[\]{{}},:]+')
_ONLY_STRINGS = re.compile(_STRING)
_INNERMOST = re.compile(r"\{[^\[\]{}]*+\}|\[[^\[\]{}]*+\]")
_COLLAPSED = 3
"""How often what has nothing in it is taken out, which is faster than to walk through it."""
_BRACKET = re.compile(r"[\[\]{}]")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_CONSTANTS = {"true": "boolean", "false": "boolean", "null": "null", "NaN": "number", "Infinity": "number"}


@dataclass(slots=True)
class Shape:
    """All values at one place, taken together."""

    kinds: dict[str, int] = field(default_factory=dict)
    keys: dict[str, Shape] = field(default_factory=dict)
    other_keys: int = 0
    others: Shape | None = None
    """The values under all keys that were too many."""
    items: Shape | None = None
    shortest: int = -1
    longest: int = -1
    """Of lists, in elements."""
    at_least: bool = False
    """There are more elements than could be counted."""
    low: float | None = None
    high: float | None = None
    samples: list[str] = field(default_factory=list)

    @property
    def seen(self) -> int:
        return sum(self.kinds.values())

    def add_length(self, length: int) -> None:
        self.shortest = length if self.shortest < 0 else min(self.shortest, length)
        self.longest = max(self.longest, length)


@dataclass(slots=True)
class Scan:
    shape: Shape
    roots: int
    """Values that were read to their end."""
    end: int
    """Where the last of them ends; where it was not finished, how far it could be followed."""
    complete: bool
    ran_out: bool
    """There was more than is read."""


class _Frame:
    __slots__ = ("child", "is_object", "length", "shape")

    def __init__(self, shape: Shape, is_object: bool) -> None:
        self.shape = shape
        self.is_object = is_object
        self.length = 0
        self.child = shape
        """Where the next value belongs."""


class _Scanner:
    def __init__(self) -> None:
        self.root = Shape()
        self.stack: list[_Frame] = []
        self.shapes = 0
        self.sink = Shape()
        """For what is too deep or too much to be told apart."""

    def scan(self, text: str, start: int) -> Scan:
        expected = "value"
        roots, end, opening = 0, start, text[start : start + 1]
        position = start
        for number, match in enumerate(_TOKEN.finditer(text, start)):
            token = match[0]
            if number >= MOST_TOKENS:
                return self._rest(text, Scan(self.root, roots, match.start(), False, True), match.start())
            if not self.stack and (token != opening or (roots and "\n" not in text[end : match.start()])):
                return Scan(self.root, roots, end, True, False)
            following = self._step(token, expected)
            if following is None:
                return Scan(self.root, roots, end if roots else position, bool(roots), False)
            expected, position = following, match.end()
            if not self.stack:
                roots, end, expected = roots + 1, position, "value"
        if self.stack:
            self._close_all()
        return Scan(self.root, roots, position, not self.stack and roots > 0, False)

    def _step(self, token: str, expected: str) -> str | None:
        """What may come next, or None where the token may not stand here."""
        first = token[0]
        if first in "]}":
            return self._closed(first, expected)
        if first == ",":
            if expected != "comma":
                return None
            return "key" if self.stack[-1].is_object else "value"
        if first == ":":
            return "value" if expected == "colon" else None
        if expected in ("key", "key or end"):
            return self._key(token) if first == '"' else None
        if expected not in ("value", "value or end"):
            return None
        if first in "[{":
            self._opened(first == "{")
            return "key or end" if first == "{" else "value or end"
        return "comma" if self._scalar(token) else None

    def _opened(self, is_object: bool) -> None:
        shape = self._place()
        kind = "object" if is_object else "list"
        shape.kinds[kind] = shape.kinds.get(kind, 0) + 1
        frame = _Frame(shape, is_object)
        if not is_object and shape is not self.sink:
            if shape.items is None:
                shape.items = self._new_shape()
            frame.child = shape.items
        self.stack.append(frame)

    def _closed(self, bracket: str, expected: str) -> str | None:
        if not self.stack or self.stack[-1].is_object != (bracket == "}"):
            return None
        if expected not in ("comma", "key or end" if bracket == "}" else "value or end"):
            return None
        frame = self.stack.pop()
        if not frame.is_object:
            frame.shape.add_length(frame.length)
        return "comma"

    def _close_all(self) -> None:
        """Lists that were cut count with what is there of them."""
        for frame in self.stack:
            if not frame.is_object:
                frame.shape.add_length(frame.length)

    def _key(self, token: str) -> str:
        frame = self.stack[-1]
        name = token[1:-1][:_LONGEST_KEY]
        shape = frame.shape
        child = self.sink if shape is self.sink else shape.keys.get(name)
        if child is None:
            if len(shape.keys) < _MOST_KEYS:
                child = shape.keys[name] = self._new_shape()
            else:
                shape.other_keys += 1
                if shape.others is None:
                    shape.others = self._new_shape()
                child = shape.others
        frame.child = child
        return "colon"

    def _new_shape(self) -> Shape:
        if self.shapes >= _MOST_SHAPES or len(self.stack) >= _DEEPEST:
            return self.sink
        self.shapes += 1
        return Shape()

    def _place(self) -> Shape:
        if not self.stack:
            return self.root
        frame = self.stack[-1]
        frame.length += 1
        return frame.child

    def _scalar(self, token: str) -> bool:
        number = None
        if token[0] == '"':
            kind = "text"
        elif found := _NUMBER.fullmatch(token):
            kind = "number" if found[1] or found[2] else "whole number"
            number = float(token) if len(token) <= 300 else None
        elif constant := _CONSTANTS.get(token.removeprefix("-")):
            kind = constant
        else:
            return False
        shape = self._place()
        shape.kinds[kind] = shape.kinds.get(kind, 0) + 1
        if number is not None:
            shape.low = number if shape.low is None else min(shape.low, number)
            shape.high = number if shape.high is None else max(shape.high, number)
        elif (
            kind == "text"
            and len(shape.samples) < _MOST_SAMPLES
            and (sample := token[:_LONGEST_SAMPLE]) not in shape.samples
        ):
            shape.samples.append(sample)
        return True

    def _rest(self, text: str, scan: Scan, position: int) -> Scan:
        """The elements of the outermost list that is still open, or the values that follow each on a line."""
        if scan.roots:
            scan.roots += text.count("\n", position) + (not text.endswith("\n"))
            self._close_all()
            return scan
        target = next((depth for depth, frame in enumerate(self.stack) if not frame.is_object), None)
        if target is None:
            return scan
        frame = self.stack[target]
        more, frame.shape.at_least = _commas(text[position:], len(self.stack), target + 1)
        frame.length += more
        self._close_all()
        return scan


def scan_json(text: str, start: int) -> Scan:
    """From an opening bracket on. Further values may follow, each on a new line."""
    return _Scanner().scan(text, start)


def _commas(text: str, depth: int, target: int) -> tuple[int, bool]:
    """Between elements of the list at this depth, and whether there are more of them than could be counted."""
    bare = _ONLY_STRINGS.sub("", text)
    for _ in range(_COLLAPSED):
        bare = _INNERMOST.sub("", bare)
    count = position = 0
    for number, match in enumerate(_BRACKET.finditer(bare)):
        if depth == target:
            count += bare.count(",", position, match.start())
        position = match.end()
        depth += 1 if match[0] in "[{" else -1
        if depth < target:
            return count, False
        if number >= _MOST_BRACKETS:
            return count, True
    return count + (bare.count(",", position) if depth == target else 0), False
