"""Secrets that are known word for word: the ones Hermes itself was given."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import quote

from agent.redaction.rules import Rule, by_pattern

SHORTEST = 8
"""A shorter one would take ordinary words with it wherever they stand."""

_LONG = 20

_counts: Counter[str] = Counter()
_rules: tuple[Rule, ...] = ()


@contextmanager
def keeping_secret(values: Iterable[str]) -> Iterator[None]:
    """As long as this lasts, none of these values passes a redaction, however it is written."""
    kept = [value for value in values if len(value.strip()) >= SHORTEST]
    _counts.update(kept)
    _renew()
    try:
        yield
    finally:
        _counts.subtract(kept)
        _renew()


def known_rules() -> tuple[Rule, ...]:
    """One rule for all of them, or none."""
    return _rules


def known_forms() -> list[str]:
    """All of them, each in every way it may be written; the longest first, because one may begin with another."""
    forms = {form for value in +_counts for form in _forms(value)}
    return sorted(forms, key=lambda form: (-len(form), form))


def _renew() -> None:
    global _rules
    forms = known_forms()
    if not forms:
        _rules = ()
        return
    pattern = "|".join(map(re.escape, forms))
    hints = {max(form.split(), key=len).lower() for form in forms}
    _rules = (Rule("a secret of this installation", by_pattern(pattern), tuple(hints)),)


def _forms(value: str) -> set[str]:
    """As it is, in a URL, in JSON and in Python; a Telegram token also without the bot's number."""
    number, _, rest = value.partition(":")
    values = {value, rest} if number.isdigit() and len(rest) >= _LONG else {value}
    return {form for each in values for form in (each, quote(each, safe=""), quote(each), *_literals(each))}


def _literals(value: str) -> tuple[str, str]:
    return json.dumps(value)[1:-1], repr(value)[1:-1]
