"""Keeps the secrets of this installation out of an answer while it is written, also where a chunk ends inside one.

Only secrets that are known word for word: what looks like a key in an answer may be an example the person asked for.
Keys in what tools return never reach the model (`agent/toolbox.py`), so it cannot repeat them.
"""

from __future__ import annotations

import re

from agent.redaction import REDACTED
from agent.redaction.known import known_forms


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
        """Redact a whole text."""
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
        """Return where the end of the text begins that more text could turn into a secret."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            if text[start] in self._beginnings and any(form.startswith(text[start:]) for form in self._forms):
                return start
        return len(text)
