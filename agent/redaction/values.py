"""Checks whether a value with a secret's name is a secret, or only refers to one: `password=os.environ["PASSWORD"]`."""

from __future__ import annotations

import re

_RUN = re.compile(r"[A-Za-z0-9]{8,}")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_CHANGES = re.compile(r"[a-z](?=[A-Z0-9])|[A-Z](?=[0-9])|[A-Z]{2}(?=[a-z])|[0-9](?=[A-Za-z])")
_LOOKED_AT = 1_000
"""Characters that tell whether a value is random."""
_LONG_RUN = 12
"""From this length on, letters alone can be told from words."""

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_REFERENCE = re.compile(rf"{_NAME}(?:[.:/-]{{1,2}}{_NAME})*")
_EXPRESSION = re.compile(rf"{_NAME}(?:\?[.?]|\.[A-Za-z_]|={{2,}})")
_CALLS = ("(", "[")
_NAMES_A_SECRET = re.compile(r"(?i)pass|pwd|secret|token|key|cred|auth")
_STAND_IN = re.compile(
    r"(?i)\$[a-z_{(]|%[(\w]|[<{\[)}\],]|\*{3}|x{3}|\.{3}|(?:your|my|the|some|enter|insert)[-_ ]"
    r"|(?:change|replace)[-_]?(?:me|this)"
    r"|(?:example|dummy|placeholder|none|null|true|false|undefined|optional|required|nullable|string|text|hidden)\b"
)


def stands_for_a_secret(value: str) -> bool:
    """A variable, a placeholder, an example: what templates and documentation have in its place."""
    return _STAND_IN.match(value) is not None


def is_reference(value: str) -> bool:
    """The name of something that holds the value, or of its type: without digits, or named after a secret."""
    if not _REFERENCE.fullmatch(value) or looks_random(value):
        return False
    return not has_digit(value) or names_a_secret(value)


def is_expression(value: str, match: re.Match[str]) -> bool:
    """Code that yields the value: a call, an index, an attribute."""
    follows = match.string[match.end() : match.end() + 1]
    return follows in _CALLS or _EXPRESSION.match(value) is not None


def has_digit(value: str) -> bool:
    return any(map(str.isdigit, value))


def names_a_secret(value: str) -> bool:
    return _NAMES_A_SECRET.search(value) is not None


def looks_random(value: str) -> bool:
    """Letters and digits in an order that no word, name or number has."""
    beginning = value[:_LOOKED_AT]
    return _UUID.search(beginning) is not None or any(map(_is_random, _RUN.findall(beginning)))


def _is_random(run: str) -> bool:
    if run.isalpha() and (run.islower() or run.isupper()):
        return False  # Words, mostly; the rest takes ten times as long to find out.
    digits, changes = sum(map(str.isdigit, run)), len(_CHANGES.findall(run))
    if digits == len(run):
        return False
    if digits < 2:
        return len(run) >= _LONG_RUN and changes >= len(run) / 4
    return digits >= 4 or changes >= 3
