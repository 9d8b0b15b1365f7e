"""How things are put into words in a digest: values, numbers, lines of somebody's text."""

from __future__ import annotations

import json

from agent.redaction import REDACTED, redact

LONGEST_LINE = 200
"""Characters of one line that is quoted."""
_LONGEST_VALUE = 40
_LOOKED_AT = 4_000
"""Characters of a value or a line. All of them are looked at for secrets before any is shown: half a key does not look
like one."""


def one_line(text: str, limit: int = LONGEST_LINE) -> str:
    """Without line breaks and secrets, and cut where it is long."""
    words = " ".join(redact(text[:_LOOKED_AT]).split())
    return words if len(words) <= limit else words[: limit - 1] + "…"


def as_written(line: str, limit: int = LONGEST_LINE) -> str:
    """A line that keeps its indentation."""
    line = redact(line[:_LOOKED_AT].rstrip())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def value(name: str, text: str, limit: int = _LONGEST_VALUE) -> str:
    """A value of a field, short. What it is called may tell that it is a secret, so both are looked at together."""
    text = text[:_LOOKED_AT]
    together = json.dumps({name[:_LONGEST_VALUE]: text}, ensure_ascii=False)
    assigned = f"{name[-_LONGEST_VALUE:]}={text}"
    if redact(together) != together or redact(assigned) != assigned:
        return REDACTED
    return one_line(text, limit)


def counted(number: int, what: str) -> str:
    """`1 row`, `1,200 rows`, `2 entries`."""
    if number == 1:
        return f"1 {what}"
    plural = {"entry": "entries", "match": "matches"}.get(what, f"{what}s")
    return f"{number:,} {plural}"
