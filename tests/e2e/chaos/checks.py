"""The promise, judged from outside: each message has one row, one turn and one complete visible reply."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from agent.untrusted import without_marks
from tests.e2e.chaos.observed import Observed, Said, Shown, Stored
from tests.e2e.chaos.words import Word, asked_in, kept, token_of_key, words_in

MARK = "(possibly sent twice)"
CURSOR = "▌"
SIGNS = ("⏳", "⚙")
"""Status messages, which disappear when the status changes."""
TROUBLE = "⚠"


class Violation(NamedTuple):
    kind: str
    chat: str
    detail: str
    token: int | None = None


@dataclass
class Verdict:
    violations: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def of(self, kind: str) -> list[Violation]:
        return [violation for violation in self.violations if violation.kind == kind]


@dataclass
class _Turn:
    """Everything about one message."""

    said: Said
    rows: list[Stored] = field(default_factory=list)
    answers: list[Stored] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)

    @property
    def text(self) -> list[Word]:
        return [word for row in self.answers for word in words_in(row.content)]

    @property
    def endings(self) -> list[Stored]:
        return [row for row in self.answers if not row.keys]


def check(observed: Observed) -> Verdict:
    turns = {said.token: _Turn(said) for said in observed.said}
    verdict = Verdict()
    _gather(observed, turns, verdict)
    for turn in turns.values():
        verdict.violations += _stored_once(turn)
        verdict.violations += _shown_once(turn, verdict.counts)
    verdict.violations += _nothing_hangs(observed.shown, verdict.counts)
    verdict.violations += _in_order(observed)
    verdict.violations += _effects_once(observed)
    verdict.violations += [
        Violation(f"{row.box} {row.state}", "", f"{row.id} {row.reason}".strip())
        for row in observed.unfinished
    ]
    verdict.violations += [Violation("database damaged", "", line) for line in observed.damage]
    verdict.counts["messages"] = len(turns)
    verdict.counts["not acknowledged"] = sum(not said.accepted for said in observed.said)
    verdict.counts["stored"] = sum(len(turn.rows) == 1 for turn in turns.values())
    verdict.counts["answered"] = sum(len(turn.endings) == 1 for turn in turns.values())
    return verdict


def _gather(observed: Observed, turns: dict[int, _Turn], verdict: Verdict) -> None:
    current: dict[str, int] = {}
    """By chat: the question whose turn it is."""
    for row in observed.stored:
        token = _token_of(row)
        turn = None if token is None else turns.get(token)
        if turn is None or token is None:
            if row.role != "tool":
                verdict.violations.append(
                    Violation("unknown row", row.chat, f"{row.role}: {row.content[:80]}")
                )
            continue
        if row.chat != turn.said.chat:
            verdict.violations.append(Violation("wrong chat", row.chat, f"{row.role} row", token))
        if row.role == "user":
            current[row.chat] = token
            turn.rows.append(row)
        elif row.role == "assistant":
            turn.answers.append(row)
            if current.get(row.chat) != token:
                verdict.violations.append(
                    Violation("order", row.chat, f"answered after q{current.get(row.chat)} was stored", token)
                )
    for shown in observed.shown:
        tokens = {word.token for word in words_in(shown.text)}
        if len(tokens) > 1:
            verdict.violations.append(Violation("mixed up", shown.chat, f"{shown.number} shows {tokens}"))
        for token in tokens & turns.keys():
            turns[token].shown.append(shown)
            if shown.chat != turns[token].said.chat:
                verdict.violations.append(Violation("wrong chat", shown.chat, "shown", token))


def _token_of(row: Stored) -> int | None:
    if row.role == "user":
        return asked_in(row.content)
    words = words_in(row.content)
    if words:
        return words[0].token
    return token_of_key(row.keys[0]) if row.keys else None


def _stored_once(turn: _Turn) -> Iterator[Violation]:
    said = turn.said

    def violation(kind: str, detail: str) -> Violation:
        return Violation(kind, said.chat, detail, said.token)

    if not turn.rows and said.accepted:
        yield violation("lost", f"message {said.number} was never stored")
    if len(turn.rows) > 1:
        yield violation("stored twice", f"message {said.number} is in {len(turn.rows)} rows")
    if turn.rows and not turn.endings:
        yield violation("unanswered", f"{len(turn.answers)} steps are stored, and no answer")
    if len(turn.endings) > 1:
        yield violation("two turns", f"{len(turn.endings)} answers are stored")


def _shown_once(turn: _Turn, counts: Counter[str]) -> Iterator[Violation]:
    """The stored text is visible once and in order. Repeated text is marked."""
    text, said = turn.text, turn.said
    reached = 0
    for at, shown in enumerate(turn.shown):
        words = words_in(shown.text)
        is_marked = MARK in shown.text
        counts["marked"] += is_marked
        if text[reached : reached + len(words)] == words:
            reached += len(words)
            counts["marked, seen once"] += is_marked
            continue
        start = text.index(words[0]) if words[0] in text else None
        is_repeated = start is not None and text[start : start + len(words)] == words
        if is_repeated and is_marked:
            assert start is not None
            counts["marked duplicates"] += 1
            reached = max(reached, start + len(words))
        elif shown.uncertain and any(MARK in later.text for later in turn.shown[at + 1 :]):
            counts["leftovers"] += 1
        elif is_repeated and start is not None and start < reached:
            yield Violation("unmarked duplicate", said.chat, _described(shown), said.token)
            reached = max(reached, start + len(words))
        else:
            yield Violation("not the stored text", said.chat, _described(shown), said.token)
    if turn.endings and reached < len(text):
        kind = "incomplete reply" if turn.shown else "no reply"
        yield Violation(kind, said.chat, f"{reached} of {len(text)} stored words can be seen", said.token)
    elif turn.endings:
        counts["replies"] += 1


def _nothing_hangs(shown: Sequence[Shown], counts: Counter[str]) -> Iterator[Violation]:
    for message in shown:
        text = message.text.strip()
        token = next((word.token for word in words_in(text)), None)
        hangs = text.endswith(CURSOR) or text.startswith(SIGNS)
        if hangs and message.uncertain:
            counts["left hanging by an uncertain send"] += 1
        elif hangs:
            yield Violation("hanging", message.chat, _described(message), token)
        elif text.startswith(TROUBLE):
            yield Violation("trouble told", message.chat, _described(message), token)
        elif token is None:
            counts[f"notice: {text[:90]}"] += 1


def _in_order(observed: Observed) -> Iterator[Violation]:
    rank = {said.token: number for number, said in enumerate(observed.said)}
    stored = [
        (row.chat, token) for row in observed.stored if row.role == "user" and (token := _token_of(row))
    ]
    shown = [(each.chat, words[0].token) for each in observed.shown if (words := words_in(each.text))]
    for what, sequence in (("stored", stored), ("shown", shown)):
        by_chat: dict[str, list[int]] = defaultdict(list)
        for chat, token in sequence:
            if token in rank:
                by_chat[chat].append(token)
        for chat, tokens in by_chat.items():
            for before, after in pairwise(tokens):
                if rank[after] < rank[before]:
                    yield Violation("order", chat, f"{what} after q{before}, which was said later", after)


def _effects_once(observed: Observed) -> Iterator[Violation]:
    stored = [(row, key) for row in observed.stored for key in row.keys]
    chats = {said.token: said.chat for said in observed.said}
    asked = {key for row, key in stored if row.role == "assistant"}
    answered = {key for row, key in stored if row.role == "tool"}
    claimed = {key for row, key in stored if row.role == "tool" and _says(row) == kept(key)}
    for key, times in Counter(observed.executed).items():
        if times > 1:
            yield _effect(chats, "effect twice", key, f"{key} has happened {times} times")
        if key not in asked:
            yield _effect(chats, "effect of no stored call", key, f"{key} has happened")
    for token, times in Counter(map(token_of_key, set(observed.executed))).items():
        if times > 1:
            yield Violation("effect twice", chats.get(token, ""), f"by {times} calls for one message", token)
    for key in sorted(asked - answered):
        yield _effect(chats, "call without result", key, key)
    for key in sorted(claimed - set(observed.executed)):
        yield _effect(chats, "effect claimed", key, f"{key} is said to have happened")


def _says(row: Stored) -> str:
    """What came of a plugin's tool is stored between marks."""
    return without_marks(row.content).strip()


def _effect(chats: dict[int, str], kind: str, key: str, detail: str) -> Violation:
    token = token_of_key(key)
    return Violation(kind, chats.get(token, ""), detail, token)


def _described(shown: Shown) -> str:
    text = " ".join(shown.text.split())
    brief = text if len(text) <= 90 else f"{text[:50]} … {text[-30:]}"
    return f"message {shown.number}{' (uncertain)' if shown.uncertain else ''}: {brief}"
