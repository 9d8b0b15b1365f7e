"""Secrets of this installation, known word for word, and the redaction of answers while they are written.

Only these are removed from an answer: what looks like a key may be an example that the person asked for. The toolbox
redacts what tools return, so the model cannot repeat those keys.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import quote

from agent.redaction.rules import REDACTED, Rule, by_pattern

SHORTEST = 8
"""A shorter secret could be an ordinary word."""

_LONG = 20

_counts: Counter[str] = Counter()
_rules: tuple[Rule, ...] = ()


@contextmanager
def keeping_secret(values: Iterable[str]) -> Iterator[None]:
    """Redact these values, however they are written, while the context lasts."""
    kept = [value for value in values if len(value.strip()) >= SHORTEST]
    _counts.update(kept)
    _renew()
    try:
        yield
    finally:
        _counts.subtract(kept)
        _renew()


def known_rules() -> tuple[Rule, ...]:
    return _rules


def known_forms() -> list[str]:
    """Return all forms of the secrets, the longest first, because one may begin with another."""
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
    """Return the value as it is, in a URL, in JSON and in Python; a Telegram token also without the bot's number."""
    number, _, rest = value.partition(":")
    values = {value, rest} if number.isdigit() and len(rest) >= _LONG else {value}
    quoted = {form for each in values for form in (each, quote(each, safe=""), quote(each))}
    return quoted | {literal[1:-1] for each in values for literal in (json.dumps(each), repr(each))}


class StreamRedactor:
    """Redacts the chunks of one answer. A chunk is held back only while it may be the beginning of a secret."""

    def __init__(self, secrets: list[str] | None = None) -> None:
        """`secrets` are those of this installation unless others are given."""
        self._forms = known_forms() if secrets is None else secrets
        self._beginnings = {form[0] for form in self._forms}
        self._longest = max(map(len, self._forms), default=0)
        self._pattern = re.compile("|".join(map(re.escape, self._forms))) if self._forms else None
        self._held = ""

    def feed(self, chunk: str) -> str:
        """Return the text that may be shown now."""
        shown, self._held = self._split(self._held + chunk)
        return shown

    def flush(self) -> str:
        """Return what was held back, at the end of the answer."""
        held, self._held = self._held, ""
        return self.redact(held)

    def redact(self, text: str) -> str:
        return self._split(text, is_whole=True)[0]

    def _split(self, text: str, *, is_whole: bool = False) -> tuple[str, str]:
        """Return what may be shown of the text, and what has to wait for more."""
        if self._pattern is None:
            return text, ""
        shown: list[str] = []
        done, limit = 0, len(text) if is_whole else self._doubtful(text)
        for match in self._pattern.finditer(text):
            if match.start() >= limit:
                break
            shown += [text[done : match.start()], REDACTED]
            done = match.end()
        return "".join((*shown, text[done:limit])), text[max(done, limit) :]

    def _doubtful(self, text: str) -> int:
        """Return where a text begins that more text could turn into a secret."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            if text[start] in self._beginnings and any(form.startswith(text[start:]) for form in self._forms):
                return start
        return len(text)
