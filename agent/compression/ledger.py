"""The ledger beside a summary: facts that stay word for word through every compaction.

It is stored as data beside the summary message, and rendered for the model. When space is short, identifiers merely
seen go first, then rules in pasted texts, then wishes. Of the person's own rules the oldest is the last to go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import chain, takewhile, zip_longest

from agent.compression.revocations import concerns, find_remarks, revocation_kind, without_revoked
from agent.compression.standing_instructions import is_lasting
from agent.tokens import estimate_text_tokens

BEGIN = "=== LEDGER: kept word for word ==="
END = "=== END OF LEDGER ==="
_TITLES = {
    "instructions": "Standing instructions from the user (a later line overrides or takes back an earlier one):",
    "pasted": "Rules in texts that the user pasted (what the user wrote comes first):",
    "named": "Identifiers, files and URLs named by the user or used in tool calls:",
    "seen": "Also mentioned:",
    "effects": "Side effects done (do not repeat them unasked):",
}
_OLD_INSTRUCTIONS = "Standing instructions from the user (a later line overrides an earlier one):"
_IDENTIFIERS = ("named", "seen")
_ITEM = "- "
_BETWEEN_PHRASES = "; "


@dataclass(frozen=True, slots=True)
class Ledger:
    """Each list is in order of the last mention, the newest at the end. No entry has a line break in it."""

    instructions: tuple[str, ...] = ()
    """The person's own rules, revocations and remarks. In a group each begins with the speaker's name."""
    pasted: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()

    def extended(self, newer: Ledger, *, just_said: bool = False) -> Ledger:
        """Add newer entries, and remove rules that they revoke. `just_said`: leave out a revocation of no rule here."""
        instructions = dict.fromkeys(self.instructions)
        for line in newer.instructions:
            instructions.pop(line, None)
            if revocation_kind(line):
                if just_said and not concerns(line, instructions):
                    continue
                instructions = dict.fromkeys(without_revoked(list(instructions), line))
            instructions[line] = None
        named = _joined(self.named, newer.named)
        known = set(named)
        return Ledger(
            instructions=tuple(instructions),
            pasted=_joined(self.pasted, newer.pasted),
            named=named,
            seen=tuple(word for word in _joined(self.seen, newer.seen) if word not in known),
            effects=_joined(self.effects, newer.effects),
        )

    def bounded(self, tokens: int, *, in_summary: Collection[str] = ()) -> Ledger:
        """Return the ledger in at most `tokens`. Identifiers that are not in the summary come first."""
        revoking = [line for line in self.instructions if revocation_kind(line)][::-1]
        rules = [line for line in self.instructions if line not in revoking]
        numbered = list(enumerate(rules))
        remarks = [line for _, line in find_remarks(numbered, numbered) if not is_lasting(line)][::-1]
        lasting = _from_both_ends([line for line in rules if is_lasting(line)])
        wishes = _from_both_ends(rules)
        named = _summarised_last(self.named, in_summary)
        seen = _summarised_last(self.seen, in_summary)
        effects = self.effects[::-1]
        kept: set[str] = set()
        room = tokens - sum(map(_cost, (BEGIN, END, _TITLES["instructions"])))
        room -= _take((lasting or wishes)[:1], room, kept)
        others = [_TITLES[name] for name, entries in _fields(self) if entries and name != "instructions"]
        room = whole = room - sum(map(_cost, others))
        # Under pressure each of the three that matter most has a share of its own; what one leaves is the others'.
        # A revocation must not be dropped before the rule that it revokes.
        shares = (([*revoking, *remarks], 0.15), (lasting, 0.25), (named, 0.35), (effects, 0.25))
        for items, share in shares:
            room -= _take(items, min(room, int(share * whole)), kept)
        for items in (lasting, revoking, named, effects, wishes, _from_both_ends(self.pasted), seen):
            room -= _take(items, room, kept)
        return Ledger(**{name: tuple(filter(kept.__contains__, entries)) for name, entries in _fields(self)})

    def as_data(self) -> dict[str, list[str]]:
        return {name: list(entries) for name, entries in _fields(self)}

    @classmethod
    def from_data(cls, data: object) -> Ledger:
        """Read `as_data`, and ignore everything else."""
        given = data if isinstance(data, Mapping) else {}
        return cls(**{field.name: tuple(_lines(given.get(field.name))) for field in fields(cls)})

    def render(self) -> str:
        """Return the section of the summary message; empty if the ledger is."""
        lines: list[str] = []
        for name, entries in _fields(self):
            if name in _IDENTIFIERS:
                words = " ".join(each for each in entries if " " not in each)
                phrases = _BETWEEN_PHRASES.join(each for each in entries if " " in each)
                entries = tuple(filter(None, (words, phrases and phrases + ";")))
            if entries:
                lines += [_TITLES[name], *(_ITEM + line for line in entries)]
        return "\n".join((BEGIN, *lines, END)) if lines else ""


def split_ledger(text: str) -> tuple[str, Ledger]:
    """Split a rendered text of an old version or another host into the text before the ledger, and the ledger."""
    before, found, after = f"\n{text}".rpartition(f"\n{BEGIN}\n")
    if not found:
        return text, Ledger()
    names = {title: name for name, title in _TITLES.items()} | {_OLD_INSTRUCTIONS: "instructions"}
    entries: dict[str, list[str]] = {name: [] for name in _TITLES}
    current: list[str] = []
    for line in takewhile(lambda line: line != END, after.split("\n")):
        if line.startswith(_ITEM):
            current.append(line.removeprefix(_ITEM))
        else:
            current = entries.get(names.get(line, ""), [])
    for name in _IDENTIFIERS:
        entries[name] = list(_identifiers(entries[name]))
    return before.removeprefix("\n"), Ledger.from_data(entries)


def without_ledger_marks(text: str) -> str:
    """Remove ledger marks, so that a summary cannot forge a ledger."""
    return "\n".join(line for line in text.split("\n") if line not in (BEGIN, END))


def _fields(ledger: Ledger) -> Iterable[tuple[str, tuple[str, ...]]]:
    return asdict(ledger).items()


def _lines(entries: object) -> Iterable[str]:
    listed = entries if isinstance(entries, list) else ()
    return (entry for entry in listed if isinstance(entry, str) and entry and "\n" not in entry)


def _identifiers(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        phrases = line.endswith(";") and " " in line
        yield from line[:-1].split(_BETWEEN_PHRASES) if phrases else line.split()


def _joined(older: Iterable[str], newer: Iterable[str]) -> tuple[str, ...]:
    """Join two lists. An entry that is in both moves to the end."""
    entries = dict.fromkeys(older)
    for entry in newer:
        entries.pop(entry, None)
        entries[entry] = None
    return tuple(entries)


def _from_both_ends(lines: Sequence[str]) -> list[str]:
    """Return the oldest, the newest, the second oldest, the second newest, and so on."""
    half = (len(lines) + 1) // 2
    pairs = zip_longest(lines[:half], reversed(lines[half:]))
    return [line for line in chain.from_iterable(pairs) if line is not None]


def _summarised_last(identifiers: Sequence[str], in_summary: Collection[str]) -> list[str]:
    """Return the newest first, and those that are in the summary last."""
    newest_first = list(reversed(identifiers))
    return sorted(newest_first, key=lambda identifier: identifier in in_summary)


def _take(items: Iterable[str], room: int, kept: set[str]) -> int:
    """Add items in this order while they fit, and return their cost."""
    used = 0
    for item in items:
        if item in kept:
            continue
        cost = _cost(item)
        if used + cost > room:
            break
        kept.add(item)
        used += cost
    return used


def _cost(entry: str) -> int:
    """Estimate tokens; codes and numbers have fewer characters to a token than prose."""
    return estimate_text_tokens(entry) + 2 if " " in entry else len(entry) // 3 + 1


_LEDGER_SHARE = 0.20
MIN_LEDGER_TOKENS = 320
_MAX_LEDGER_TOKENS = 3_000


def max_ledger(threshold_tokens: int) -> int:
    return min(max(MIN_LEDGER_TOKENS, int(threshold_tokens * _LEDGER_SHARE)), _MAX_LEDGER_TOKENS)


def ledger_budget(room: int, beside: int, beside_shortened: int, most: int) -> int:
    """Return the tokens for the ledger: the room that the messages leave, as they are or else truncated.

    The ledger gives way, down to its minimum, before messages are truncated.
    """
    left = room - beside if room - beside >= MIN_LEDGER_TOKENS else room - beside_shortened
    return min(max(MIN_LEDGER_TOKENS, left), most)
