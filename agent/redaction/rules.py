"""Rules of redaction: how to build them, and how to tell a secret from a reference to one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

Span = tuple[int, int]
Find = Callable[[str], Iterable[Span]]
Confirm = Callable[[re.Match[str]], bool]

REDACTED = "[redacted]"
_KEY_CHARACTER = "[A-Za-z0-9_-]"
_MAX_VALUE = 250
"""Characters after a name that are searched, so that one endless word full of names stays cheap."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Finds the secrets of one kind."""

    what: str
    find: Find
    """Finds start and end of each secret, in order and without overlaps."""
    hints: tuple[str, ...]
    """Lower case, without spaces. Each text with such a secret has one of them."""
    one_word: bool = False
    """A match is long and contains no white space."""


def shape(what: str, *prefixes: str, tail: str, confirm: Confirm | None = None) -> Iterator[Rule]:
    """Yield a rule for each prefix of a provider's keys; `KEY` in the tail means a character of a key."""
    for prefix in prefixes:
        plain = re.escape(prefix)
        pattern = f"{plain}(?<!{_KEY_CHARACTER}{plain})(?:{tail.replace('KEY', _KEY_CHARACTER)})"
        yield Rule(what, by_pattern(pattern, confirm), (prefix.lower(),), one_word=True)


def phrase(what: str, pattern: str, *hints: str, confirm: Confirm | None = None) -> Rule:
    """Return a rule for a pattern. Its group `secret` is the secret; without that group, the whole match."""
    return Rule(what, by_pattern(pattern, confirm), hints)


def named(
    what: str, names: Iterable[str], pattern: str, *, confirm: Confirm, looked_at: int = _MAX_VALUE
) -> Rule:
    """Return a rule for values that follow one of these names, in any case. The pattern is tried only there."""
    compiled = _when_needed(pattern)
    names = tuple(names)

    def find(text: str) -> Iterator[Span]:
        after, lower = compiled(), _lower(text)
        end = 0
        for start in sorted(position for name in names for position in _ends_of(name, lower)):
            match = after.match(text, start, start + looked_at)
            if match and match.start("secret") >= end and confirm(match):
                if match.end() == start + looked_at:
                    # The whole of it, and only once: what comes next is looked for behind it.
                    match = after.match(text, start) or match
                yield match.span("secret")
                end = match.end("secret")

    return Rule(what, find, tuple(max(name.split(), key=len) for name in names))


def _ends_of(name: str, text: str) -> Iterator[int]:
    position = text.find(name)
    while position >= 0:
        position += len(name)
        yield position
        position = text.find(name, position)


def _lower(text: str) -> str:
    """Return the text in lower case with the same length: a few capital letters have two small ones."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(small if len(small := char.lower()) == 1 else char for char in text)


def by_pattern(pattern: str, confirm: Confirm | None = None) -> Find:
    group: str | int = "secret" if "(?P<secret>" in pattern else 0
    compiled = _when_needed(pattern)

    def find(text: str) -> Iterator[Span]:
        for match in compiled().finditer(text):
            if confirm is None or confirm(match):
                yield match.span(group)

    return find


def _when_needed(pattern: str) -> Callable[[], re.Pattern[str]]:
    """Compile on first use: together the patterns take longer than a command should take to start."""
    return cache(lambda: re.compile(pattern))


_RUN = re.compile(r"[A-Za-z0-9]{8,}")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_CHANGES = re.compile(r"[a-z](?=[A-Z0-9])|[A-Z](?=[0-9])|[A-Z]{2}(?=[a-z])|[0-9](?=[A-Za-z])")
_MAX_RANDOM_SEARCH = 1_000
_MIN_RANDOM_LETTERS = 12

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_REFERENCE = re.compile(rf"{_NAME}(?:[.:/-]{{1,2}}{_NAME})*")
_EXPRESSION = re.compile(rf"{_NAME}(?:\?[.?]|\.[A-Za-z_]|={{2,}})")
_CALLS = ("(", "[")
_NAMES_A_SECRET = re.compile(r"(?i)pass|pwd|secret|token|key|cred|auth")
_PLACEHOLDER = re.compile(
    r"(?i)\$[a-z_{(]|%[(\w]|[<{\[)}\],]|\*{3}|x{3}|\.{3}|(?:your|my|the|some|enter|insert)[-_ ]"
    r"|(?:change|replace)[-_]?(?:me|this)"
    r"|(?:example|dummy|placeholder|none|null|true|false|undefined|optional|required|nullable|string|text|hidden)\b"
)


def is_placeholder(value: str) -> bool:
    """Return whether it is a variable, a placeholder or an example."""
    return _PLACEHOLDER.match(value) is not None


def is_reference(value: str) -> bool:
    """Return whether it is a name without digits, or one that speaks of a secret."""
    if not _REFERENCE.fullmatch(value) or looks_random(value):
        return False
    return not has_digit(value) or names_a_secret(value)


def is_expression(value: str, match: re.Match[str]) -> bool:
    """Return whether it is code: a call, an index, an attribute."""
    follows = match.string[match.end() : match.end() + 1]
    return follows in _CALLS or _EXPRESSION.match(value) is not None


def has_digit(value: str) -> bool:
    return any(map(str.isdigit, value))


def names_a_secret(value: str) -> bool:
    return _NAMES_A_SECRET.search(value) is not None


def looks_random(value: str) -> bool:
    """Return whether letters and digits are in an order that no word, name or number has."""
    beginning = value[:_MAX_RANDOM_SEARCH]
    return _UUID.search(beginning) is not None or any(map(_is_random, _RUN.findall(beginning)))


def _is_random(run: str) -> bool:
    if run.isalpha() and (run.islower() or run.isupper()):
        return False  # Words, mostly; the rest takes ten times as long to find out.
    digits, changes = sum(map(str.isdigit, run)), len(_CHANGES.findall(run))
    if digits == len(run):
        return False
    if digits < 2:
        return len(run) >= _MIN_RANDOM_LETTERS and changes >= len(run) / 4
    return digits >= 4 or changes >= 3
