"""What only the engine writes, and no model and no text in a conversation may.

The engine sets `[s12 · m101-m148 · …]` above a summary and `(lcm_expand s12 …)` beneath it. A line of a summary that
looks like one would send the reader to the wrong place, or end the summary early.
"""

from __future__ import annotations

import re

from agent.untrusted import in_a_note, strip_role_markers

TOPICS = "Expand for details about:"
"""Begins the last line of an answer."""

_DECORATION = r"[\W_]*?(?:\d{1,3}[.)]\W*?)?"
"""Of a list, a quote, a heading, bold type: what may stand before a mark without hiding it from a reader."""
_IMITATION = re.compile(
    rf"{_DECORATION}(?:[\[【［〔]\s*(?:(?:c\d+\s*\.\s*)?[sm]\d+|LCM\b|CONTEXT COMPACTION)|[(（\[]\s*lcm_)"
)
_TOPICS_LINE = re.compile(r"[\W_]*expand for details about[\s*_`]*[:：][\s*_`]*", re.IGNORECASE)
_LOOKED_AT = 200
"""Characters of a line. A mark stands at its beginning."""
_NONE = frozenset(("", "topics", "none", "nothing", "n/a", "-"))
_AROUND_A_TOPIC = " \t.,;:*_`<>\"'-•·…"


def without_imitations(text: str) -> str:
    """The text without lines that pass for the engine's, and without signs that part the speakers in a prompt."""
    lines = strip_role_markers(text).splitlines()
    return "\n".join(line.rstrip() for line in lines if not _is_imitation(line)).strip()


def split_topics(answer: str) -> tuple[str, str]:
    """The text and the topics of an answer. They are empty where it has none."""
    lines = answer.rstrip().splitlines()
    last = next((n for n in range(len(lines) - 1, -1, -1) if _TOPICS_LINE.match(lines[n][:_LOOKED_AT])), None)
    if last is None:
        return answer.strip(), ""
    found = _TOPICS_LINE.sub("", lines[last], count=1)
    rest = lines[last + 1 :]
    if not found.strip():
        # Some models write a list beneath it.
        found, rest = ", ".join(line.strip(_AROUND_A_TOPIC) for line in rest if line.strip()), []
    return "\n".join((*lines[:last], *rest)).strip(), one_line(found)


def one_line(topics: str) -> str:
    line = in_a_note(topics).strip(_AROUND_A_TOPIC)
    return "" if line.casefold() in _NONE else line


def _is_imitation(line: str) -> bool:
    beginning = line[:_LOOKED_AT]
    return bool(_IMITATION.match(beginning) or _TOPICS_LINE.match(beginning))
