"""The judge of the kill test knows every kind of crime when it sees one, and lets the innocent go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.e2e.chaos.checks import CURSOR, MARK, check
from tests.e2e.chaos.observed import Observed, Open, Said, Shown, Stored
from tests.e2e.chaos.words import answer, effect_key, kept, question

ADA, BOB = "telegram:1", "telegram:2"
KEY = effect_key(2, 1)


def innocent() -> Observed:
    """Ada asks twice, the second time something that needs a tool; Bob asks once. All are answered."""
    return Observed(
        said=[Said(1, ADA, "1"), Said(2, ADA, "3"), Said(3, BOB, "1")],
        stored=[
            Stored(ADA, "user", question(1), "msg_1"),
            Stored(ADA, "assistant", answer(1, 1, 8)),
            Stored(BOB, "user", question(3), "msg_3"),
            Stored(ADA, "user", question(2), "msg_2"),
            Stored(ADA, "assistant", answer(2, 1, 2), keys=(KEY,)),
            Stored(ADA, "tool", kept(KEY), keys=(KEY,)),
            Stored(ADA, "assistant", answer(2, 2, 4)),
            Stored(BOB, "assistant", answer(3, 1, 90)),
        ],
        shown=[
            Shown(ADA, "2", answer(1, 1, 8)),
            Shown(ADA, "4", answer(2, 1, 2)),
            Shown(ADA, "5", answer(2, 2, 4)),
            Shown(BOB, "2", answer(3, 1, 90).partition("\n\n")[0]),
            Shown(BOB, "3", answer(3, 1, 90).partition("\n\n")[2]),
        ],
        executed=[KEY],
    )


def with_shown(*shown: Shown, at: int = 0, instead_of: int = 0) -> Observed:
    """Insert these messages before the one at this index, or replace that many."""
    observed = innocent()
    before, after = observed.shown[:at], observed.shown[at + instead_of :]
    return replace(observed, shown=[*before, *shown, *after])


def with_stored(*stored: Stored, at: int, instead_of: int = 0) -> Observed:
    observed = innocent()
    before, after = observed.stored[:at], observed.stored[at + instead_of :]
    return replace(observed, stored=[*before, *stored, *after])


def marked(text: str) -> str:
    return f"{MARK}\n\n{text}"


def test_innocent() -> None:
    """Nothing is wrong, and everything is counted."""
    verdict = check(innocent())
    assert verdict.violations == []
    counted = {kind: verdict.counts[kind] for kind in ("messages", "stored", "answered", "replies", "marked")}
    assert counted == {"messages": 3, "stored": 3, "answered": 3, "replies": 3, "marked": 0}


FIRST = answer(1, 1, 8)
CRIMES = {
    "a message is in no row": (with_stored(at=0, instead_of=2), {"lost", "not the stored text"}),
    "a message is in two rows": (with_stored(Stored(ADA, "user", question(1)), at=1), {"stored twice"}),
    "no answer is stored": (with_stored(at=1, instead_of=1), {"unanswered", "not the stored text"}),
    "only a step is stored": (with_stored(at=6, instead_of=1), {"unanswered", "not the stored text"}),
    "two answers are stored": (
        with_stored(Stored(ADA, "assistant", answer(1, 2, 8)), at=2),
        {"two turns", "incomplete reply"},
    ),
    "an answer cannot be seen": (with_shown(instead_of=1), {"no reply"}),
    "half an answer can be seen": (with_shown(at=4, instead_of=1), {"incomplete reply"}),
    "the first half is missing": (
        with_shown(at=3, instead_of=1),
        {"incomplete reply", "not the stored text"},
    ),
    "another text can be seen": (
        with_shown(Shown(ADA, "2", answer(1, 2, 8)), instead_of=1),
        {"not the stored text", "incomplete reply"},
    ),
    "what an earlier attempt began still stands there": (
        with_shown(Shown(ADA, "0", answer(1, 0, 3))),
        {"not the stored text"},
    ),
    "an answer is there twice": (with_shown(Shown(ADA, "9", FIRST), at=1), {"unmarked duplicate"}),
    "an answer is there twice, and one was uncertain": (
        with_shown(Shown(ADA, "9", FIRST, uncertain=True)),
        {"unmarked duplicate"},
    ),
    "a part of an answer is there twice": (
        with_shown(Shown(BOB, "9", answer(3, 1, 90).partition("\n\n")[0]), at=4),
        {"unmarked duplicate"},
    ),
    "a beginning hangs above its answer": (
        with_shown(Shown(ADA, "9", f"{answer(1, 1, 3)} {CURSOR}")),
        {"unmarked duplicate", "hanging"},
    ),
    "an answer was never finished": (
        with_shown(Shown(ADA, "2", f"{answer(1, 1, 3)} {CURSOR}"), instead_of=1),
        {"incomplete reply", "hanging"},
    ),
    "a sign is left": (with_shown(Shown(ADA, "9", "⏳ Noted; I answer it after this one.")), {"hanging"}),
    "a tool's line is left": (with_shown(Shown(ADA, "9", "⚙ keep_note: x")), {"hanging"}),
    "trouble is told": (with_shown(Shown(ADA, "9", "⚠ Something went wrong.")), {"trouble told"}),
    "answers change places": (
        with_shown(*innocent().shown[1:3], innocent().shown[0], instead_of=3),
        {"order"},
    ),
    "questions change places": (
        with_stored(*innocent().stored[3:7], *innocent().stored[:3], at=0, instead_of=7),
        {"order"},
    ),
    "a question is answered after the next was stored": (
        with_stored(innocent().stored[3], *innocent().stored[1:3], at=1, instead_of=3),
        {"order"},
    ),
    "somebody else's answer": (
        with_shown(replace(innocent().shown[0], chat=BOB), instead_of=1),
        {"wrong chat"},
    ),
    "somebody else's row": (
        with_stored(replace(innocent().stored[0], chat=BOB), at=0, instead_of=1),
        {"wrong chat", "order"},
    ),
    "two answers in one message": (
        with_shown(Shown(ADA, "2", f"{FIRST} {answer(2, 1, 2)}"), instead_of=2),
        {"mixed up", "not the stored text", "incomplete reply"},
    ),
    "nobody has asked": (with_stored(Stored(ADA, "user", "q99"), at=2), {"unknown row"}),
    "a call has its effect twice": (replace(innocent(), executed=[KEY, KEY]), {"effect twice"}),
    "two calls have theirs for one message": (
        replace(innocent(), executed=[KEY, effect_key(2, 9)]),
        {"effect twice", "effect of no stored call"},
    ),
    "an effect without a stored call": (
        replace(innocent(), executed=[KEY, effect_key(3, 1)]),
        {"effect of no stored call"},
    ),
    "an effect that never was": (replace(innocent(), executed=[]), {"effect claimed"}),
    "a call without a result": (with_stored(at=5, instead_of=1), {"call without result"}),
    "a message still waits": (
        replace(innocent(), unfinished=[Open("inbox", "msg_1", "waiting")]),
        {"inbox waiting"},
    ),
    "a message is parked": (
        replace(innocent(), unfinished=[Open("inbox", "msg_1", "parked")]),
        {"inbox parked"},
    ),
    "a reply is on its way": (
        replace(innocent(), unfinished=[Open("outbox", "o", "sending")]),
        {"outbox sending"},
    ),
    "the database is damaged": (replace(innocent(), damage=["row 3 missing"]), {"database damaged"}),
}


@pytest.mark.parametrize("crime", CRIMES)
def test_crime(crime: str) -> None:
    """It is found, and called by its name."""
    observed, kinds = CRIMES[crime]
    assert {violation.kind for violation in check(observed).violations} == kinds


EXCUSES = {
    "repeated with a mark": (
        with_shown(Shown(ADA, "2", FIRST, uncertain=True), Shown(ADA, "9", marked(FIRST)), instead_of=1),
        "marked duplicates",
    ),
    "sent again with a mark, because the first never arrived": (
        with_shown(Shown(ADA, "2", marked(FIRST)), instead_of=1),
        "marked, seen once",
    ),
    "a beginning that Hermes could not know of, with its answer marked": (
        with_shown(
            Shown(ADA, "0", f"{answer(1, 1, 3)} {CURSOR}", uncertain=True),
            Shown(ADA, "2", marked(FIRST)),
            instead_of=1,
        ),
        "left hanging by an uncertain send",
    ),
    "the same of another attempt": (
        with_shown(
            Shown(ADA, "0", f"{answer(1, 0, 3)} {CURSOR}", uncertain=True),
            Shown(ADA, "2", marked(FIRST)),
            instead_of=1,
        ),
        "leftovers",
    ),
    "a sign that Hermes could not know of": (
        with_shown(Shown(ADA, "9", "⏳ Noted; I answer it after this one.", uncertain=True)),
        "left hanging by an uncertain send",
    ),
    "a message whose sender was told nothing": (
        replace(innocent(), said=[*innocent().said, Said(4, "web:a", accepted=False)]),
        "not acknowledged",
    ),
    "a notice": (
        with_shown(Shown(ADA, "9", "Hermes was away for a moment.")),
        "notice: Hermes was away for a moment.",
    ),
}


@pytest.mark.parametrize("excuse", EXCUSES)
def test_excuse(excuse: str) -> None:
    """It is counted, but not as a violation."""
    observed, counted = EXCUSES[excuse]
    verdict = check(observed)
    assert verdict.violations == []
    assert verdict.counts[counted] == 1


def test_what_nobody_was_told_of_must_be_whole_if_it_is_there() -> None:
    """A message that was not acknowledged may be stored, but not without an answer."""
    observed = innocent()
    stored = [*observed.stored, Stored("web:a", "user", question(4))]
    observed = replace(observed, said=[*observed.said, Said(4, "web:a", accepted=False)], stored=stored)
    assert [violation.kind for violation in check(observed).violations] == ["unanswered"]
