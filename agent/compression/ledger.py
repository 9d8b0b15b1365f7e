"""The ledger beside a summary: what must not be lost in paraphrase, kept word for word through every compaction.

It is part of the summary message, in a section of its own that is read back exactly, so it survives restarts with the
message. It is bounded: when space is short, identifiers merely seen go first and standing instructions last, each the
oldest first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from agent.compression.standing_instructions import is_lasting
from agent.tokens import estimate_text_tokens

BEGIN = "=== LEDGER: kept word for word ==="
END = "=== END OF LEDGER ==="
_INSTRUCTIONS = "Standing instructions from the user (a later line overrides an earlier one):"
_NAMED = "Identifiers, files and URLs named by the user or used in tool calls:"
_SEEN = "Also mentioned:"
_EFFECTS = "Side effects done (do not repeat them unasked):"
_ITEM = "- "
_FRAME_TOKENS = 75
"""The lines above."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Each list is in order of the last mention, the newest at the end. No entry has a line break in it."""

    instructions: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    """Identifiers have no spaces in them."""
    seen: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()

    def extended(self, newer: Ledger) -> Ledger:
        named = _joined(self.named, newer.named)
        known = set(named)
        return Ledger(
            instructions=_joined(self.instructions, newer.instructions),
            named=named,
            seen=tuple(word for word in _joined(self.seen, newer.seen) if word not in known),
            effects=_joined(self.effects, newer.effects),
        )

    def bounded(self, tokens: int, *, in_summary: Collection[str] = ()) -> Ledger:
        """The ledger in no more than so many tokens. Identifiers that are not in the summary have the better claim."""
        lasting = [line for line in self.instructions if is_lasting(line)]
        named = _less_dear_first(self.named, in_summary)
        seen = _less_dear_first(self.seen, in_summary)
        room = whole = max(0, tokens - _FRAME_TOKENS)
        kept: set[str] = set()
        # Under pressure each of the three that matter most has a share of its own; what one leaves is the others'.
        for items, share in ((lasting, 0.4), (named, 0.35), (self.effects, 0.25)):
            room -= _take(items, int(share * whole), kept)
        for items in (lasting, named, self.effects, self.instructions, seen):
            room -= _take(items, room, kept)
        return Ledger(
            instructions=tuple(line for line in self.instructions if line in kept),
            named=tuple(word for word in self.named if word in kept),
            seen=tuple(word for word in self.seen if word in kept),
            effects=tuple(line for line in self.effects if line in kept),
        )

    def render(self) -> str:
        """The section as it stands in the summary message; empty where there is nothing to keep."""
        lines: list[str] = []
        if self.instructions:
            lines += [_INSTRUCTIONS, *(_ITEM + line for line in self.instructions)]
        for title, identifiers in ((_NAMED, self.named), (_SEEN, self.seen)):
            if identifiers:
                lines += [title, _ITEM + " ".join(identifiers)]
        if self.effects:
            lines += [_EFFECTS, *(_ITEM + line for line in self.effects)]
        return "\n".join((BEGIN, *lines, END)) if lines else ""


def split_ledger(text: str) -> tuple[str, Ledger]:
    """The text before the ledger, and the ledger. What follows it is dropped."""
    before, found, after = f"\n{text}".rpartition(f"\n{BEGIN}\n")
    if not found:
        return text, Ledger()
    sections: dict[str, list[str]] = {_INSTRUCTIONS: [], _NAMED: [], _SEEN: [], _EFFECTS: []}
    current: list[str] = []
    for line in after.split("\n"):
        if line == END:
            break
        if line.startswith(_ITEM):
            current.append(line.removeprefix(_ITEM))
        else:
            current = sections.get(line, [])
    return before.removeprefix("\n"), Ledger(
        instructions=tuple(sections[_INSTRUCTIONS]),
        named=tuple(" ".join(sections[_NAMED]).split()),
        seen=tuple(" ".join(sections[_SEEN]).split()),
        effects=tuple(sections[_EFFECTS]),
    )


def without_ledger_marks(text: str) -> str:
    """A summary cannot forge a ledger."""
    return "\n".join(line for line in text.split("\n") if line not in (BEGIN, END))


def _joined(older: Iterable[str], newer: Iterable[str]) -> tuple[str, ...]:
    """What is said again moves to the end."""
    entries = dict.fromkeys(older)
    for entry in newer:
        entries.pop(entry, None)
        entries[entry] = None
    return tuple(entries)


def _less_dear_first(identifiers: Sequence[str], in_summary: Collection[str]) -> list[str]:
    return sorted(identifiers, key=lambda identifier: identifier not in in_summary)


def _take(items: Sequence[str], room: int, kept: set[str]) -> int:
    """Adds items from the end as long as they fit, and returns what they cost."""
    used = 0
    for item in reversed(items):
        cost = _cost(item)
        if item in kept:
            continue
        if used + cost > room:
            break
        kept.add(item)
        used += cost
    return used


def _cost(entry: str) -> int:
    """Codes and numbers have fewer characters to a token than prose."""
    return estimate_text_tokens(entry) + 2 if " " in entry else len(entry) // 3 + 1
