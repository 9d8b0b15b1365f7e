"""Rules of redaction and how to build them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

Span = tuple[int, int]
Find = Callable[[str], Iterable[Span]]
Confirm = Callable[[re.Match[str]], bool]

_KEY = "[A-Za-z0-9_-]"
_LOOKED_AT = 250
"""Characters after a name by which it is decided whether a secret follows. One endless word may be full of names;
without a limit each of them would be followed to its end."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Finds the secrets of one kind."""

    what: str
    find: Find
    """Finds start and end of each secret, in order and without overlaps."""
    hints: tuple[str, ...]
    """Lower case, without spaces; one of them is in every text that holds such a secret. They make a miss cheap."""
    one_word: bool = False
    """A match is long and contains no white space."""


def shape(what: str, *prefixes: str, tail: str, confirm: Confirm | None = None) -> Iterator[Rule]:
    """Yield a rule for each prefix of a provider's keys; `KEY` in the tail means a character of a key.

    The pattern begins with the bare prefix, because Python finds that fast; a look-behind then checks the character
    before it.
    """
    for prefix in prefixes:
        plain = re.escape(prefix)
        pattern = f"{plain}(?<!{_KEY}{plain})(?:{tail.replace('KEY', _KEY)})"
        yield Rule(what, by_pattern(pattern, confirm), (prefix.lower(),), one_word=True)


def phrase(what: str, pattern: str, *hints: str, confirm: Confirm | None = None) -> Rule:
    """Return a rule for a pattern. Its group `secret` is the secret; without that group, the whole match."""
    return Rule(what, by_pattern(pattern, confirm), hints)


def named(
    what: str, names: Iterable[str], pattern: str, *, confirm: Confirm, looked_at: int = _LOOKED_AT
) -> Rule:
    """For what follows one of these names, in upper or lower case. The names are looked for as they are, and the
    pattern is tried only there: a pattern of many names would be tried at every letter."""
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
    """As long as the text: a few capital letters have two small ones."""
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
    """Together they take longer to compile than a command should take to start, and few are ever needed."""
    return cache(lambda: re.compile(pattern))
