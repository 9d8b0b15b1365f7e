"""What stands in the context in place of a large text: what it is, how it is built, and a little of it.

`digest` never fails, needs about the same time for each character, and stays within the tokens it is given. Nothing in
a digest is more trusted than the text was: what stood between marks stands between marks again, and what only looks
like a mark, also once JSON or HTML is unescaped, is broken up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.compression.truncate import fair_cap
from agent.redaction import redact
from agent.tokens import cut_to_tokens, estimate_text_tokens
from agent.untrusted import MARK, Part, parts_of, strip_role_markers, wrap_untrusted

from .kinds import plainly, read
from .room import Findings, fitted
from .source import Source, read_source
from .values import counted

__all__ = ["Digest", "digest"]

_FRAME = estimate_text_tokens(wrap_untrusted("")) + 1
_SMALLEST_PART = 60
_MOST_PARTS = 8
"""Of a text in which the person's words and those of others take turns."""


@dataclass(frozen=True, slots=True)
class Digest:
    kind: str
    text: str


def digest(text: str, *, tokens: int, hint: str = "") -> Digest:
    """The text in at most so many tokens; 60 is the least in which something can be said.

    `hint` is what is known of its origin, such as a path, or the name and the arguments of a tool.
    """
    text = _storable(text)
    if MARK not in text:
        return _of_part(Part(text, outside=False), tokens, hint)
    parts = [part for part in parts_of(text) if part.text.strip()]
    if len(parts) <= 1:
        return _of_part(parts[0] if parts else Part("", outside=True), tokens, hint)
    return _of_parts(parts, tokens, hint)


def _of_parts(parts: Sequence[Part], tokens: int, hint: str) -> Digest:
    """Small parts as they are, large ones as digests of their own. Of many, the largest and those at both ends."""
    shown = _chosen(parts, min(_MOST_PARTS, max(1, tokens // _SMALLEST_PART)))
    note = f"[{counted(len(parts) - len(shown), 'part')} left out]" if len(shown) < len(parts) else ""
    room = tokens - estimate_text_tokens(note) - len(shown) - _FRAME * sum(part.outside for part in shown)
    cap = fair_cap([estimate_text_tokens(part.text) + 1 for part in shown], max(room, 0), 0)
    kind = ""
    largest = max(shown, key=lambda part: len(part.text))
    written: list[str] = []
    left = tokens - estimate_text_tokens(note) - 1
    for part in shown:
        allowed = min(left, cap + _FRAME * part.outside)
        made = _as_it_is(part, allowed) or _of_part(part, allowed, hint)
        kind = made.kind if part is largest else kind
        written.append(made.text)
        left -= estimate_text_tokens(made.text + "\n")
    return Digest(kind, "\n".join(filter(None, (*written, note))))


def _chosen(parts: Sequence[Part], most: int) -> list[Part]:
    if len(parts) <= most:
        return list(parts)
    largest = max(range(len(parts)), key=lambda index: len(parts[index].text))
    # From both ends, as many as there is room for beside the largest.
    ends = [index for pair in zip(range(most), range(len(parts) - 1, -1, -1), strict=False) for index in pair]
    kept = dict.fromkeys((largest, *ends))
    return [parts[index] for index in sorted(list(kept)[:most])]


def _as_it_is(part: Part, tokens: int) -> Digest | None:
    if len(part.text) > 8 * tokens:
        return None
    body = redact(part.text)
    text = wrap_untrusted(body) if part.outside else strip_role_markers(body)
    return Digest("text", text) if estimate_text_tokens(text) <= tokens else None


def _of_part(part: Part, tokens: int, hint: str) -> Digest:
    tokens = max(0, tokens)
    source = read_source(part.text, hint)
    findings = _findings(source)
    lines = counted(source.line_count, "line")
    facts = ", ".join(
        filter(None, (f"{findings.kind}, {lines}, {len(part.text):,} characters", findings.facts))
    )
    facts = cut_to_tokens(f"{facts}.", tokens)
    room = tokens - estimate_text_tokens(facts + "\n") - (_FRAME if part.outside else 0)
    if room <= 0:
        return Digest(findings.kind, facts)
    body = _body(source, findings, room)
    if part.outside:
        body = wrap_untrusted(body)
    return Digest(findings.kind, f"{facts}\n{body}" if body else facts)


def _findings(source: Source) -> Findings:
    try:
        return read(source)
    except Exception:  # noqa: BLE001 - whatever somebody's file does to a reader, a compaction must not fail by it
        return plainly(source)


def _body(source: Source, findings: Findings, tokens: int) -> str:
    notes = "\n".join(source.notes)
    room = tokens - (estimate_text_tokens(notes + "\n") if notes else 0)
    if room < tokens // 2:
        notes, room = "", tokens
    body = "\n".join(filter(None, (fitted(findings, room), notes)))
    # Single lines were looked at before; together they may tell more. What is redacted may grow by it.
    return cut_to_tokens(strip_role_markers(redact(body)), tokens)


def _storable(text: str) -> str:
    """Lone surrogates can be neither stored nor sent."""
    return text if text.isascii() else text.encode(errors="replace").decode()
