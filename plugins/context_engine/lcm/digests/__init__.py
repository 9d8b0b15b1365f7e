"""Makes a digest of a text: detects its format and describes it within a token budget.

`digest` never fails, takes time in proportion to the text, and stays within its tokens. A digest is never more trusted
than its text: what was marked as untrusted is marked again, and imitated marks are broken up, also those that appear
only once JSON is unescaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.compression.truncate import fair_cap
from agent.redaction import redact
from agent.tokens import cut_to_tokens, estimate_text_tokens
from agent.untrusted import MARK, Part, parts_of, strip_role_markers, wrap_untrusted

from ..formatting import pluralize
from ..messages import make_storable
from .json import read_json
from .source import Findings, Source, fitted, read_source
from .table import read_table
from .text import plain_sections, read_python, read_text

_FRAME_TOKENS = estimate_text_tokens(wrap_untrusted("")) + 1
_MIN_PART_TOKENS = 60
_MAX_PARTS = 8
"""Parts that are described where the user's own words and quoted words alternate."""


@dataclass(frozen=True, slots=True)
class Digest:
    kind: str
    text: str


def digest(text: str, *, tokens: int) -> Digest:
    """Describe the text in at most `tokens` tokens; fewer than 60 say next to nothing."""
    text = make_storable(text)
    if MARK not in text:
        return _digest_part(Part(text, outside=False), tokens)
    parts = [part for part in parts_of(text) if part.text.strip()]
    if len(parts) <= 1:
        return _digest_part(parts[0] if parts else Part("", outside=True), tokens)
    return _digest_parts(parts, tokens)


def detect(source: Source) -> Findings:
    """Ask each reader in turn; plain text is the fallback. Raises what a reader raises."""
    for reader in (read_json, read_table, read_python):
        if (findings := reader(source)) is not None:
            return findings
    return read_text(source)


def _digest_parts(parts: Sequence[Part], tokens: int) -> Digest:
    """Quote small parts, describe large ones. Of many parts, take the largest and those at both ends."""
    shown = _select(parts, min(_MAX_PARTS, max(1, tokens // _MIN_PART_TOKENS)))
    note = f"[{pluralize(len(parts) - len(shown), 'part')} left out]" if len(shown) < len(parts) else ""
    room = (
        tokens - estimate_text_tokens(note) - len(shown) - _FRAME_TOKENS * sum(part.outside for part in shown)
    )
    cap = fair_cap([estimate_text_tokens(part.text) + 1 for part in shown], max(room, 0), 0)
    kind = ""
    largest = max(shown, key=lambda part: len(part.text))
    written: list[str] = []
    left = tokens - estimate_text_tokens(note) - 1
    for part in shown:
        allowed = min(left, cap + _FRAME_TOKENS * part.outside)
        made = _quote(part, allowed) or _digest_part(part, allowed)
        kind = made.kind if part is largest else kind
        written.append(made.text)
        left -= estimate_text_tokens(made.text + "\n")
    return Digest(kind, "\n".join(filter(None, (*written, note))))


def _select(parts: Sequence[Part], limit: int) -> list[Part]:
    if len(parts) <= limit:
        return list(parts)
    largest = max(range(len(parts)), key=lambda index: len(parts[index].text))
    ends = [
        index for pair in zip(range(limit), range(len(parts) - 1, -1, -1), strict=False) for index in pair
    ]
    chosen = list(dict.fromkeys((largest, *ends)))[:limit]
    return [parts[index] for index in sorted(chosen)]


def _quote(part: Part, tokens: int) -> Digest | None:
    if len(part.text) > 8 * tokens:
        return None
    body = redact(part.text)
    text = wrap_untrusted(body) if part.outside else strip_role_markers(body)
    return Digest("text", text) if estimate_text_tokens(text) <= tokens else None


def _digest_part(part: Part, tokens: int) -> Digest:
    tokens = max(0, tokens)
    source = read_source(part.text)
    try:
        findings = detect(source)
    except (
        ValueError,
        ArithmeticError,
        RecursionError,
        MemoryError,
    ):  # one message must not stop a compaction
        findings = Findings("text", "", plain_sections(source))
    size = f"{findings.kind}, {pluralize(source.line_count, 'line')}, {len(part.text):,} characters"
    facts = cut_to_tokens(f"{', '.join(filter(None, (size, findings.facts)))}.", tokens)
    room = tokens - estimate_text_tokens(facts + "\n") - (_FRAME_TOKENS if part.outside else 0)
    if room <= 0:
        return Digest(findings.kind, facts)
    body = _body(source, findings, room)
    if part.outside:
        body = wrap_untrusted(body)
    return Digest(findings.kind, f"{facts}\n{body}" if body else facts)


def _body(source: Source, findings: Findings, tokens: int) -> str:
    notes = "\n".join(source.notes)
    room = tokens - (estimate_text_tokens(notes + "\n") if notes else 0)
    if room < tokens // 2:
        notes, room = "", tokens
    body = "\n".join(filter(None, (fitted(findings, room), notes)))
    # Lines were redacted one by one; a secret may span several. Redacting can lengthen the text, so it is cut last.
    return cut_to_tokens(strip_role_markers(redact(body)), tokens)
