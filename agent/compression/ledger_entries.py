"""The vocabulary of a stretch of conversation by speaker, and the ledger entries found in it.

Searching the vocabulary instead of every message keeps a compaction linear. Rules count only where the person typed
them, not in text that was copied into a message: code fences, quoted lines, our own blocks, walls of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from agent.compression.identifiers import find_effects, find_identifiers, find_phrases
from agent.compression.ledger import Ledger
from agent.compression.message_dates import day_of, with_day
from agent.compression.revocations import NumberedLine, find_remarks, speaker_in, topic_words
from agent.compression.standing_instructions import (
    find_instructions,
    last_statement,
    possible_remarks,
    telling_words,
)
from agent.compression.summary_check import without_own_marks
from agent.messages import ChatDict, call_of, text_of
from agent.untrusted import outside_words, own_words, without_marks

_MAX_RESULT_SEARCH = 64_000

_MOST_RULES = 100
_RULES_FROM_PASTE_END = 4
_ACKNOWLEDGED = 3
"""Words. A shorter answer, such as "Noted, thanks", says nothing to remember."""

_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)")
_ESCAPED_SIGNS = ('"', "\\", "/")

T = TypeVar("T")
Words = dict[str, None]
"""Unique words, the newest first."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    said_by_user: Sequence[str]
    """Whole messages, the newest first."""
    days: Sequence[str]
    answers: Sequence[str]
    """The last answer of the assistant before each user message."""
    said_by_assistant: Sequence[str]
    user: Words
    assistant: Words
    arguments: Words
    results: Words

    def words(self) -> Iterable[str]:
        return chain(self.user, self.assistant, self.arguments, self.results)


def vocabulary_of(messages: Sequence[ChatDict], pruned: Sequence[ChatDict]) -> Vocabulary:
    """Collect the words of the messages as they were said. Old tool results count as pruned."""
    user, days, answers, assistant, arguments, results = (list[str]() for _ in range(6))
    room = _MAX_RESULT_SEARCH
    for said, sent in zip(reversed(messages), reversed(pruned), strict=True):
        role = said["role"]
        if role == "user":
            text = text_of(said)
            words, name = own_words(text), said.get("name")
            # In a group the host puts the speaker's name in front and indents the other lines.
            is_named = not name or words.startswith(f"{name}: ")
            user.append(words if is_named else f"{name}: " + words.replace("\n", "\n  "))
            days.append(day_of(said))
            answers.append("")
            # Untrusted text contains neither instructions of the user nor identifiers that the user named.
            if others := outside_words(text):
                results.append(others)
        elif role == "tool":
            text = without_marks(text_of(said if room > 0 else sent))
            room -= len(text)
            results.append(text)
        else:
            if text := text_of(said):
                assistant.append(text)
                if answers and not answers[-1]:
                    answers[-1] = text
            if calls := said.get("tool_calls"):
                arguments += [call_of(call)[1] for call in reversed(calls)]
    return Vocabulary(
        said_by_user=user,
        days=days,
        answers=answers,
        said_by_assistant=assistant,
        user=_words(user),
        assistant=_words(assistant),
        arguments=_words(map(_unescaped, arguments)),
        results=_words(map(_unescaped, results)),
    )


def find_entries(
    messages: Sequence[ChatDict],
    wording: Vocabulary,
    *,
    earlier: Ledger,
    earlier_summary: str,
) -> Ledger:
    """Return what these messages add to the earlier ledger. They must be free of secrets."""
    seen = [
        *find_phrases(wording.said_by_assistant),
        *find_identifiers(wording.assistant),
        *find_identifiers(wording.results),
    ]
    named = [
        *find_phrases(wording.said_by_user),
        *find_identifiers(wording.user),
        *find_identifiers(wording.arguments),
    ]
    rules = _rules(wording, earlier.instructions)
    return Ledger(
        instructions=tuple(rule for rule, pasted in rules if not pasted),
        pasted=tuple(dict.fromkeys(rule for rule, pasted in rules if pasted)),
        named=tuple(reversed(dict.fromkeys(named))),
        seen=tuple(reversed(dict.fromkeys([*seen, *find_identifiers(earlier_summary.split())]))),
        effects=tuple(dict.fromkeys(find_effects(messages))),
    )


def _rules(wording: Vocabulary, earlier: Sequence[str]) -> list[tuple[str, bool]]:
    """Return rules, and remarks that may change one, in order, each with whether it was pasted."""
    said, answers = wording.said_by_user[::-1], wording.answers[::-1]
    speakers = [speaker_in(text) for text in said]
    if 2 * sum(map(bool, speakers)) <= len(said):
        speakers = [""] * len(said)
    found: list[tuple[int, str, bool]] = []
    if telling := telling_words(wording.user):
        for index, text in enumerate(said):
            if not telling.isdisjoint(text.split()):
                before = _statement_before(answers[index], said[index - 1] if index else "")
                found += [(index, *rule) for rule in _rules_in(text, before, speakers[index])]
    # Bounded apart, so that no paste drives out what the person wrote between two of them.
    typed = _ends([rule for rule in found if not rule[2]], _MOST_RULES)
    found = [*typed, *_ends([rule for rule in found if rule[2]], _MOST_RULES)]
    own = [*((-1, rule) for rule in earlier), *((index, rule) for index, rule, _ in typed)]
    found += [(index, remark, False) for index, remark in _remarks(said, wording.user, own, speakers)]
    days = wording.days[::-1]
    return [(with_day(rule, days[i]), pasted) for i, rule, pasted in sorted(found, key=lambda each: each[0])]


def _remarks(
    said: Sequence[str], words: Words, rules: Sequence[NumberedLine], speakers: Sequence[str]
) -> list[NumberedLine]:
    about = topic_words(words, (rule for _, rule in rules)) if rules else frozenset()
    known = {rule for _, rule in rules}
    sentences = [
        (index, sentence)
        for index, text in enumerate(said)
        if not about.isdisjoint(text.split())
        for part in typed_parts(text)
        if not part.is_pasted
        for sentence in possible_remarks(part.text)
    ]
    named = [(index, _said_by(sentence, speakers[index])) for index, sentence in sentences]
    return find_remarks([each for each in named if each[1] not in known], rules)


def _statement_before(answer: str, said: str) -> str:
    """Return what "remember that" refers to: the assistant's last statement, or the person's if only acknowledged."""
    if len(answer.split()) <= _ACKNOWLEDGED:
        return last_statement(said)
    return last_statement(own_words(answer))


def _said_by(rule: str, speaker: str) -> str:
    prefix = f"{speaker}: " if speaker else ""
    return prefix + rule.removeprefix(prefix)


def _rules_in(text: str, before: str, speaker: str) -> Iterator[tuple[str, bool]]:
    paste: list[str] = []
    for part in typed_parts(text):
        rules = [_said_by(rule, speaker) for rule in find_instructions(part.text, before)]
        if not part.goes_on:
            yield from ((rule, True) for rule in _ends(paste, _RULES_FROM_PASTE_END))
            paste = []
        if part.is_pasted:
            paste += rules
        else:
            yield from ((rule, False) for rule in rules)
        before = last_statement(part.text) or before
    yield from ((rule, True) for rule in _ends(paste, _RULES_FROM_PASTE_END))


def _ends(items: list[T], count: int) -> list[T]:
    """Return `count` items from the beginning and as many from the end."""
    return items if len(items) <= 2 * count else [*items[:count], *items[-count:]]


def _unescaped(text: str) -> str:
    """Unescape JSON, where a line break would pass for part of a path."""
    if "\\" not in text or text[:1] not in ("{", "["):
        return text
    return _ESCAPE.sub(lambda escape: escape[1] if escape[1] in _ESCAPED_SIGNS else " ", text)


def _words(texts: Iterable[str]) -> Words:
    return dict.fromkeys("\n".join(texts).split())


_LONG_BLOCK_LINES = 12
_LONG_BLOCK_CHARACTERS = 1_500
_LONG_MESSAGE = 40
"""Lines. In a longer message only the first and the last paragraph count as typed, if they differ from the rest."""
_ALIKE = 0.5
_FENCE = re.compile(r"\s*(?:```|~~~)")
_QUOTED = re.compile(
    r"\s*(?:>|\||On .{5,80} wrote:$|Am .{5,80} schrieb .{2,80}:$|-{2,} ?(?:Forwarded|Original))"
)


@dataclass(frozen=True, slots=True)
class Part:
    text: str
    is_pasted: bool
    goes_on: bool = False
    """It is much like the pasted paragraph before it."""


def typed_parts(text: str) -> Iterator[Part]:
    """Yield the paragraphs of a message, without copied blocks of ours."""
    if "[" in text or "===" in text:
        text = without_own_marks(text, labels=True)
    blocks = list(_blocks(text.splitlines()))
    is_long = sum(len(block) for block, _ in blocks) > _LONG_MESSAGE
    before: set[str] | None = None
    for index, (block, is_quoted) in enumerate(blocks):
        inside = is_long and not _stands_out(blocks, index)
        joined = "\n".join(block)
        is_wall = len(block) > _LONG_BLOCK_LINES or len(joined) > _LONG_BLOCK_CHARACTERS
        is_pasted, words = is_quoted or inside or is_wall, set(joined.split())
        yield Part(joined, is_pasted, goes_on=is_pasted and before is not None and _are_alike(words, before))
        before = words if is_pasted else None


def _stands_out(blocks: list[tuple[list[str], bool]], index: int) -> bool:
    """Return whether the first or last paragraph differs from the paste next to it."""
    if 0 < index < len(blocks) - 1 or len(blocks) < 2:
        return False
    own, neighbour = (set(" ".join(blocks[i][0]).split()) for i in (index, 1 if index == 0 else index - 1))
    return not _are_alike(own, neighbour)


def _are_alike(words: set[str], others: set[str]) -> bool:
    return len(words & others) >= _ALIKE * len(words)


def _blocks(lines: list[str]) -> Iterator[tuple[list[str], bool]]:
    """Yield paragraphs, each with whether it is fenced or quoted."""
    block: list[str] = []
    kind = in_fence = False
    for line in lines:
        fences = _FENCE.match(line) is not None
        quoted = in_fence or fences or _QUOTED.match(line) is not None
        if block and (not line.strip() or quoted != kind) and not (in_fence and kind):
            yield block, kind
            block = []
        if line.strip():
            kind = quoted
            block.append(line)
        in_fence ^= fences
    if block:
        yield block, kind
